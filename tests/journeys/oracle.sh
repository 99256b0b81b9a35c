# Runs inside an instance: appends one line a second and one at SIGTERM, with this host's clock.
# The file is the truth that the bill is compared with.
out="$TESSERA_WORKSPACE/oracle"
trap 'echo "term $(date +%s.%N)" >> "$out"; exit 0' TERM
echo "start $(date +%s.%N)" >> "$out"
while :; do
  echo "alive $(date +%s.%N)" >> "$out"
  sleep 1 & wait $!
done
