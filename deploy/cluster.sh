# shellcheck shell=bash
# Read by deploy/up and deploy/down: the processes of a cluster on this machine. They are recorded
# in a folder outside the sources, each with its start time, so that a number the system has given
# to somebody else's process meanwhile is never touched.

cluster=local
state=  # the folder of this cluster, set by open_state
as=${0##*/}
stop_seconds=${UP_STOP_SECONDS:-20}  # how long a node may take to hand over its work and end

say() { printf 'deploy/%s: %s\n' "$as" "$*"; }
die() {
  printf 'deploy/%s: %s\n' "$as" "$*" >&2
  exit 1
}
usage_error() {
  printf 'deploy/%s: %s\n' "$as" "$*" >&2
  exit 2
}

# Makes and locks the folder: two commands at once would start two clusters.
open_state() {
  local base=${XDG_RUNTIME_DIR:-/tmp}/deepinfer-$UID
  (umask 077 && mkdir -p "$base")
  [[ -O $base && ! -L $base ]] || die "$base belongs to somebody else; set XDG_RUNTIME_DIR to a folder of yours"
  state=$base/up-$cluster
  (umask 077 && mkdir -p "$state")
  exec 9>"$state/lock"
  flock -n 9 || die "another deploy/up or deploy/down for cluster \"$cluster\" is at work"
  touch "$state/processes"
}

# When process $1 started, in clock ticks since boot; nothing if there is no such process. The
# program's name may hold blanks and parentheses, so fields are counted after the last one.
start_time() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  stat=${stat##*) }
  # state (the first field left) Z is a process that ended and was not waited for
  [[ $stat != Z* ]] || return 0
  awk '{ print $20 }' <<<"$stat"
}

# Records a process that was just started.
remember() {
  printf '%s %s %s\n' "$1" "$(start_time "$1")" "$2" >>"$state/processes"
}

# Whether process $1 is still the one that started at $2.
is_ours() {
  [[ -n $2 && $(start_time "$1") == "$2" ]]
}

# Whether all recorded processes live, and there is one.
running() {
  local pid started name any=no
  while read -r pid started name; do
    is_ours "$pid" "$started" || return 1
    any=yes
  done <"$state/processes"
  [[ $any == yes ]]
}

show_log() {
  printf -- '--- last lines of %s\n' "$state/$1.log" >&2
  tail -n 20 "$state/$1.log" >&2 || true
  printf -- '---\n' >&2
}

# Ends the command if a node has died.
check_alive() {
  local pid started name
  while read -r pid started name; do
    if ! is_ours "$pid" "$started"; then
      show_log "$name"
      die "$name ended; the reason should stand above"
    fi
  done <"$state/processes"
}

# Asks every recorded process to end, the last one started first, and insists after
# `stop_seconds`.
stop_all() {
  local lines line pid started name waited=0
  mapfile -t lines <"$state/processes"
  for ((line = ${#lines[@]} - 1; line >= 0; line--)); do
    read -r pid started name <<<"${lines[line]}"
    if is_ours "$pid" "$started"; then kill -TERM "$pid" 2>/dev/null || true; fi
  done
  for line in "${lines[@]}"; do
    read -r pid started name <<<"$line"
    while is_ours "$pid" "$started"; do
      if ((waited++ >= stop_seconds * 10)); then
        say "$name (pid $pid) did not end within $stop_seconds s: killed"
        kill -KILL "$pid" 2>/dev/null || true
        waited=$((stop_seconds * 10 - 5))  # half a second for the system to clean up
      fi
      sleep 0.1
    done
  done
  : >"$state/processes"
}
