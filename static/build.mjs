// Build static/dist: the style sheet, the scripts, the fonts and the icons. The same sources give
// the same bytes anywhere, so that CI can compare. `node static/build.mjs [OUT]`
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(here);
const wanted = resolve(process.argv[2] ?? join(here, "dist"));
const out = `${wanted}.new-${process.pid}`; // whoever reads meanwhile sees the old one whole
const modules = join(root, "node_modules");
const fromModules = createRequire(join(root, "package.json"));

function buildStyles() {
  const cli = fromModules.resolve("@tailwindcss/cli/package.json");
  execFileSync(
    process.execPath,
    [join(dirname(cli), "dist/index.mjs"), "-i", join(here, "css/src/app.css"), "-o", join(out, "app.css"), "--minify"],
    { cwd: root, stdio: ["ignore", "ignore", "pipe"] },
  );
}

function buildScripts() {
  // head.js runs before the first paint and is no module; app.js takes what it needs as chunks.
  const common = { bundle: true, minify: true, target: "es2022", legalComments: "none", logLevel: "warning", absWorkingDir: root };
  esbuild.buildSync({ ...common, entryPoints: ["static/js/src/head.js"], format: "iife", outfile: join(out, "head.js") });
  esbuild.buildSync({
    ...common, entryPoints: { app: "static/js/src/console.js" }, format: "esm", splitting: true,
    outdir: out, chunkNames: "chunks/[name]-[hash]",
  });
}

function copyFonts() {
  mkdirSync(join(out, "fonts"));
  for (const name of ["geist", "geist-mono"]) {
    const file = `${name}-latin-wght-normal.woff2`;
    copyFileSync(join(modules, "@fontsource-variable", name, "files", file), join(out, "fonts", `${name}.woff2`));
  }
}

function collectIcons() {
  // One line a name in static/icons.txt; the inside of each <svg> goes into one JSON file.
  const names = readFileSync(join(here, "icons.txt"), "utf8").split("\n").map((line) => line.trim());
  const icons = {};
  for (const name of names.filter((line) => line && !line.startsWith("#")).sort()) {
    const svg = readFileSync(join(modules, "lucide-static/icons", `${name}.svg`), "utf8");
    icons[name] = svg.slice(svg.indexOf(">", svg.indexOf("<svg")) + 1, svg.lastIndexOf("</svg>")).replace(/\s*\n\s*/g, "");
  }
  writeFileSync(join(out, "icons.json"), `${JSON.stringify(icons, null, 1)}\n`);
}

mkdirSync(out, { recursive: true });
copyFonts();
collectIcons();
buildStyles();
buildScripts();
rmSync(wanted, { recursive: true, force: true });
renameSync(out, wanted);
process.stdout.write(`${readdirSync(wanted, { recursive: true }).length} files in ${wanted}\n`);
