"""
The local runtime's driver: folders, processes, SSH banner. Keeps nothing in memory, so that a new
agent finds what the last one started.

    STATE/c/<container>/   label.json spec.json process.json exit.json traffic log
                           authorized_keys password notice.json
    STATE/r/<residence>/   residence.json host_key data/        (data/ belongs to the instance)

Folders are 0711 and files 0600, all root's, so that an instance reaches its own data and reads
nobody else's. Not root: everything runs as the agent's user, and nothing is kept from anybody.
spec.json holds the environment, with the values of secrets.

``Order.network`` is ignored: processes of one host share its network.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from agents.clock import Clock
from agents.drivers.base import Container, DriverError, Labels, NoSuchContainer, Unsupported
from agents.drivers.local import processes
from agents.files import read_json, write_atomically, write_json
from agents.meter import Traffic
from agents.protocol import (
    AllocationSpec,
    EndpointFact,
    Order,
    ResidenceFact,
    ResidenceOrder,
    SliceSpec,
)

log = logging.getLogger("agents.local")

USER = "tessera"
CODE = Path(__file__).resolve().parents[3]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What neither an image nor a customer may set: how programs are loaded, and what GPUs are seen.
RESERVED = ("LD_", "NVIDIA_", "TESSERA_")
NOTICE = "notice.json"
PROBE_S = 1.0
# The shell leaves at once, so that the instance belongs to init and not to the agent.
DETACH = '"$@" </dev/null >>"$0" 2>&1 & echo $!'


class LocalRuntime:
    name = "local"

    def __init__(self, state: Path, clock: Clock, *, listen: str = "127.0.0.1") -> None:
        self._clock = clock
        self._listen = listen
        self._is_root = os.getuid() == 0
        self._state = state
        self._containers = state / "c"
        self._residences = state / "r"
        for folder in (state, self._containers, self._residences):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o711)

    # --- what is there

    async def list_containers(self) -> list[str]:
        return sorted(p.parent.name for p in self._containers.glob("*/label.json"))

    async def inspect(self, container: str) -> Container:
        folder = self._containers / container
        label = self._label(container)
        process = read_json(folder / "process.json")
        # From one reading: the start must not be missing where the life is known.
        main = self._main(container)
        is_alive = label["boot"] == self._clock.now().boot and self._is_alive(label, main, process)
        ended = read_json(folder / "exit.json") or {}
        return Container(
            labels=_labels(label),
            state="alive" if is_alive else "ended",
            boot=label["boot"],
            started=main[1] if main else "",
            exit_code=None if is_alive else ended.get("exit_code"),
            traffic=_traffic(folder / "traffic"),
        )

    async def probe(self, container: Container) -> list[EndpointFact] | None:
        folder = self._containers / container.labels.container
        process = read_json(folder / "process.json")
        if process is None or not await _greets(process["host"], process["port"]):
            return None
        return [
            EndpointFact(
                kind="ssh",
                host=process["host"],
                port=process["port"],
                user=USER,
                host_key_fingerprint=process["fingerprint"],
                workspace=(read_json(folder / "spec.json") or {}).get("cwd", ""),
            )
        ]

    # --- life of a container

    async def pull(self, image: str) -> None:
        """An image is a name here: everything runs on the host's own files."""

    async def start(self, order: Order, labels: Labels, residences: list[ResidenceOrder]) -> None:
        folder = self._containers / labels.container
        if (folder / "label.json").exists():
            if (await self.inspect(labels.container)).state == "alive":
                return
            await self.remove(labels.container)
        uid = self._uid_of(order.instance)
        folder.mkdir(mode=0o711, exist_ok=True)
        folder.chmod(0o711)
        home, host_key = self._disk(folder, order.instance, "system", residences, uid)
        workspace, _ = self._disk(folder, order.instance, "workspace", residences, uid)
        self._write_doors(folder, order.spec, uid)
        self._write_notice(folder, order.spec, uid)
        mark = processes.mark_of(labels.container, self._state)
        write_json(
            folder / "spec.json",
            {
                "mark": mark,
                "uid": uid,
                "listen": self._listen,
                "host_key": str(host_key),
                "cwd": str(workspace),
                "env": _environment(order, labels, home, workspace)
                | {processes.MARK: mark, "TESSERA_NOTICE": str(folder / NOTICE)},
                "command": order.spec.command,
                "grace_s": order.spec.grace_s,
            },
        )
        # Last: a folder without a label is no container, but the scraps of a start that crashed.
        write_json(
            folder / "label.json",
            {
                **{k: v for k, v in vars(labels).items() if k != "slices"},
                "slices": [msgspec.to_builtins(part) for part in labels.slices],
                "boot": self._clock.now().boot,
                "uid": uid,
                "mark": mark,
            },
        )
        await asyncio.to_thread(self._spawn, folder, labels)

    async def update(self, container: str, spec: AllocationSpec, spec_rev: int) -> None:
        label = self._label(container)
        folder = self._containers / container
        self._write_doors(folder, spec, label["uid"])
        self._write_notice(folder, spec, label["uid"])
        write_json(folder / "label.json", {**label, "spec_rev": spec_rev})

    async def terminate(self, container: str) -> None:
        self._label(container)
        main = self._main(container)
        if main is not None:
            processes.send(*main, signal.SIGTERM)

    async def kill(self, container: str) -> None:
        label = self._label(container)
        main = self._main(container)
        if main is not None:
            processes.send(*main, signal.SIGKILL)
        await asyncio.to_thread(processes.end_members, _mark(label), label["uid"])

    async def remove(self, container: str) -> None:
        try:
            await self.kill(container)
        except NoSuchContainer:
            return
        folder = self._containers / container
        await asyncio.to_thread(_destroy, folder, last="label.json")

    # --- residences

    async def list_residences(self) -> list[ResidenceFact]:
        facts = []
        for path in sorted(self._residences.glob("*/residence.json")):
            said = read_json(path) or {}
            facts.append(
                ResidenceFact(
                    residence=path.parent.name,
                    instance=said.get("instance", ""),
                    kind=said.get("kind", ""),
                )
            )
        return facts

    async def wipe(self, residence: str) -> None:
        folder = self._residences / _plain(residence)
        said = read_json(folder / "residence.json") or {}
        await asyncio.to_thread(_destroy, folder, last="residence.json")
        if said.get("kind") == "system":
            self._forget_uid(said["instance"])

    # --- inside

    def _label(self, container: str) -> dict[str, Any]:
        label: dict[str, Any] | None = read_json(self._containers / container / "label.json")
        if label is None:
            raise NoSuchContainer(container)
        return label

    def _main(self, container: str) -> tuple[int, str] | None:
        """(pid, start) of the instance's own process in this boot, as it or its parent noted it."""
        folder = self._containers / container
        noted = read_json(folder / "process.json") or read_json(folder / "spawned.json")
        if noted is None or noted["boot"] != self._clock.now().boot or noted["started"] is None:
            return None
        return noted["pid"], noted["started"]

    def _is_alive(
        self, label: dict[str, Any], main: tuple[int, str] | None, process: dict[str, Any] | None
    ) -> bool:
        if main is not None:
            return processes.start_of(main[0]) == main[1]
        # The agent died between the start and its note: the mark in the environment tells.
        return process is None and any(True for _ in processes.members(_mark(label), None))

    def _spawn(self, folder: Path, labels: Labels) -> None:
        answer = subprocess.run(
            ["/bin/sh", "-c", DETACH, str(folder / "log"),
             sys.executable, "-m", "agents.drivers.local.instance", str(folder)],
            env={
                "PATH": PATH,
                "LANG": "C.UTF-8",
                "PYTHONPATH": str(CODE),
                processes.MARK: processes.mark_of(labels.container, self._state),
                "TESSERA_NODE": labels.node,
                "TESSERA_INSTANCE": labels.instance,
                "TESSERA_ALLOCATION": labels.allocation,
                "TESSERA_INCARNATION": str(labels.incarnation),
                "TESSERA_RUN": labels.run,
            },
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            timeout=10,
            check=True,
        )  # fmt: skip
        pid = int(answer.stdout)
        write_json(
            folder / "spawned.json",
            {"pid": pid, "started": processes.start_of(pid), "boot": self._clock.now().boot},
        )

    def _disk(
        self,
        folder: Path,
        instance: str,
        kind: str,
        residences: list[ResidenceOrder],
        uid: int | None,
    ) -> tuple[Path, Path]:
        """
        Return (folder for the instance, path of the host key). Without a residence that is ordered
        the bytes are scratch: they go with the container.
        """
        ordered = next((r for r in residences if r.kind == kind and r.instance == instance), None)
        place = folder / kind if ordered is None else self._residences / _plain(ordered.residence)
        place.mkdir(mode=0o711, exist_ok=True)
        place.chmod(0o711)
        inside = place / "data"
        inside.mkdir(mode=0o700, exist_ok=True)
        if uid is not None:
            os.chown(inside, uid, uid)
        if ordered is not None:
            write_json(place / "residence.json", {"instance": instance, "kind": kind})
        return inside, place / "host_key"

    def _write_doors(self, folder: Path, spec: AllocationSpec, uid: int | None) -> None:
        """Write who gets in: root's files, which the instance reads at each log-in."""
        keys = "".join(f"{key.strip()}\n" for key in spec.ssh_keys)
        for name, text in (("authorized_keys", keys), ("password", spec.password_digest)):
            _show(folder / name, text, uid)

    def _write_notice(self, folder: Path, spec: AllocationSpec, uid: int | None) -> None:
        """Tell the instance that its place is needed, or that it may stay."""
        if not spec.reclaim_at:
            (folder / NOTICE).unlink(missing_ok=True)
            return
        notice = {"kind": "spot", "action": "stop", "deadline": spec.reclaim_at}
        _show(folder / NOTICE, json.dumps(notice), uid)

    def _uid_of(self, instance: str) -> int | None:
        """
        The instance's own uid, the same at each start because its files belong to it. It comes from
        the agent's folder and the instance's id: processes are ended by uid, so two agents of one
        machine must not give the same one, not even to one instance that moves between them.
        """
        if not self._is_root:
            return None
        self._require_reachable()
        path = self._state / "uids.json"
        kept: dict[str, int] = read_json(path) or {}
        if instance not in kept:
            here = f"{self._state.resolve()} {instance}"
            kept[instance] = _choose_uid(here, {*kept.values(), *processes.uids_in_use()})
            write_json(path, kept)
        return kept[instance]

    def _forget_uid(self, instance: str) -> None:
        path = self._state / "uids.json"
        kept: dict[str, int] = read_json(path) or {}
        if kept.pop(instance, None) is not None:
            write_json(path, kept)

    def _require_reachable(self) -> None:
        for folder in self._state.resolve().parents:
            if not stat.S_IMODE(folder.stat().st_mode) & stat.S_IXOTH:
                raise Unsupported(
                    f"instances run unprivileged and cannot reach {self._state}, because {folder}"
                    " is closed to others: choose a state_dir under /var/lib/tessera"
                )


def _mark(label: dict[str, Any]) -> str:
    """One that an agent of before has started carries the container's name alone."""
    return str(label.get("mark") or f"{label['allocation']}.{label['incarnation']}")


def _traffic(path: Path) -> Traffic:
    try:
        out, into = path.read_text().split()
    except (OSError, ValueError):
        return Traffic()
    return Traffic(net_out=int(out), net_in=int(into))


def _labels(label: dict[str, Any]) -> Labels:
    return Labels(
        node=label["node"],
        instance=label["instance"],
        allocation=label["allocation"],
        incarnation=label["incarnation"],
        run=label["run"],
        spec_rev=label["spec_rev"],
        slices=msgspec.convert(label["slices"], tuple[SliceSpec, ...]),
    )


def _show(path: Path, text: str, uid: int | None) -> None:
    """Write a file of ours that the instance may read and not change."""
    aside = path.with_name(f"{path.name}.new")
    write_atomically(aside, text.encode())
    if uid is not None:
        os.chown(aside, 0, uid)
        aside.chmod(0o640)
    aside.replace(path)


def _environment(order: Order, labels: Labels, home: Path, workspace: Path) -> dict[str, str]:
    asked = {k: v for k, v in order.spec.env.items() if not k.startswith(RESERVED)}
    return {
        "PATH": PATH,
        "LANG": "C.UTF-8",
        "SHELL": shutil.which("bash", path="/bin:/usr/bin") or "/bin/sh",
        **asked,
        "HOME": str(home),
        "USER": USER,
        "LOGNAME": USER,
        "TESSERA_INSTANCE": labels.instance,
        "TESSERA_NAME": order.spec.name,
        "TESSERA_WORKSPACE": str(workspace),
        "TESSERA_GPUS": ",".join(part.gpu_uuid for part in order.slices),
        "TESSERA_VRAM_MIB": str(sum(part.vram_mib for part in order.slices)),
    }


def _plain(name: str) -> str:
    """A name from the server becomes a folder: refuse one that would lead elsewhere."""
    if not name or name.startswith(".") or "/" in name or "\0" in name:
        raise Unsupported(f"{name!r} is no name of a residence")
    return name


def _choose_uid(name: str, taken: set[int]) -> int:
    first, count = _uid_range()
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % count
    for step in range(count):
        uid = first + (place + step) % count
        if uid not in taken:
            return uid
    raise DriverError("there is no free uid")


def _uid_range() -> tuple[int, int]:
    """
    (first, count) of uids for instances: 200,000 to 2^30, above users and below containers' odd
    ends; inside a user namespace that maps fewer, the upper half of what it maps.
    """
    mapped = 0
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/uid_map").read_text().splitlines():
            inside, _, count = (int(n) for n in line.split())
            if inside <= 1000:
                mapped = max(mapped, inside + count)
    if mapped >= 2**30 or not mapped:
        return 200_000, 2**30 - 200_000
    return mapped // 2, mapped // 2 - 2


async def _greets(host: str, port: int) -> bool:
    """The readiness probe: an SSH server says its name."""
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), PROBE_S)
    except (OSError, asyncio.TimeoutError):
        return False
    try:
        greeting = await asyncio.wait_for(reader.read(4), PROBE_S)
    except (OSError, asyncio.TimeoutError):
        return False
    finally:
        writer.close()
    return greeting.startswith(b"SSH-")


def _destroy(folder: Path, *, last: str) -> None:
    """Remove a folder; the file that names it goes last, so that a crash leaves it listed."""
    if not folder.exists():
        return
    try:
        for entry in folder.iterdir():
            if entry.name == last:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        (folder / last).unlink(missing_ok=True)
        folder.rmdir()
    except OSError as error:
        raise DriverError(f"{folder.name} is not removed yet: {error.strerror}") from error
