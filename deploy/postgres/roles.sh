#!/bin/sh
# Run once by the postgres image, on an empty volume: three roles, and a database that the first
# of them owns. Passwords come as files, so that no `docker inspect` shows them.
set -eu
password() { cat "/run/secrets/$1"; }
psql --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
  --set owner="$(password owner_password)" --set app="$(password app_password)" \
  --set reader="$(password reader_password)" <<'SQL'
CREATE ROLE tessera_owner LOGIN PASSWORD :'owner';
CREATE ROLE tessera_app LOGIN PASSWORD :'app';
CREATE ROLE tessera_reader LOGIN PASSWORD :'reader';
CREATE DATABASE tessera OWNER tessera_owner;
SQL
