# steps.sh is sourced: `step` adds a step, `run_steps` runs them one after the other and stops at the first that fails.
# Each step prints its number, what it does, how long it took and which steps are left.
names=() modes=() texts=() commands=()

# step NAME hide|show TEXT COMMAND...: hide prints the command's output only when the command fails.
step() {
  names+=("$1") modes+=("$2") texts+=("$3")
  shift 3
  commands+=("$(printf '%q ' "$@")")
}

# spent SECONDS prints a duration.
spent() { if [ "$1" -lt 120 ]; then echo "$1 s"; else echo "$(($1 / 60)) min $(($1 % 60)) s"; fi; }

# left INDEX prints the names of the steps after that one.
left() {
  local rest; rest=$(printf '%s, ' "${names[@]:$(($1 + 1))}")
  [ $(($1 + 1)) -lt ${#names[@]} ] && echo "left: ${rest%, }" || echo "all steps passed after $(spent $SECONDS)"
}

run_steps() {
  local i start log passed
  log=$(mktemp)
  trap 'rm -f "'"$log"'"; kill $(jobs -p) 2>/dev/null || true' EXIT
  for i in "${!names[@]}"; do
    echo "step $((i + 1)) of ${#names[@]}  ${names[i]}: ${texts[i]}"
    start=$SECONDS passed=yes
    if [ "${modes[i]}" = show ]; then
      eval "${commands[i]}" || passed=no
    else
      eval "${commands[i]}" >"$log" 2>&1 || { passed=no; cat "$log"; }
    fi
    if [ $passed = no ]; then echo "  FAILED: ${names[i]}, after $(spent $((SECONDS - start))): ${commands[i]}"; exit 1; fi
    echo "  ok in $(spent $((SECONDS - start))); $(left "$i")"
  done
}
