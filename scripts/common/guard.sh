# Ends a process group when the process that started this guard has ended.
#
#   guard.sh <process> <signal>
#
# The process leads its group. Standard input is a pipe that only the starter
# holds open. A line in it means that the process no longer needs a guard; the
# end of the pipe means that the starter has ended.

# Prints when a process began, which is unique with its id; nothing if it ended.
begun() {
  if [ -r /proc/self/stat ]; then
    { read -r stat < "/proc/$1/stat"; } 2> /dev/null || return 0
    # proc(5): the name, field 2, is in brackets and may hold anything.
    set -- ${stat##*) }
    [ "$1" = Z ] || echo "${20}"
  else
    ps -o stat=,lstart= -p "$1" | sed -n '/^Z/!s/^[^ ]* *//p'
  fi
}

process=$1
signal=$2
start=$(begun "$process")
if [ -z "$start" ] || read -r _; then exit; fi

# It has ten seconds to end by itself.
tries=0
while [ "$(begun "$process")" = "$start" ]; do
  case $tries in
    0) kill -s "$signal" -- "-$process" ;;
    100) kill -s KILL -- "-$process" && exit ;;
  esac
  tries=$((tries + 1))
  sleep 0.1
done
