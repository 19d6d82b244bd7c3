# Ends a process group when whoever started this is gone, however it went.
#
#   guard.sh <process> <signal>
#
# The process leads its group. Standard input is a pipe that nobody but the
# starter holds open: a line in it means that the process needs no guard any
# more, its end that the starter is gone.

# When the process began, which with its id is unique; nothing once it ended.
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

# Ten seconds for an orderly end.
tries=0
while [ "$(begun "$process")" = "$start" ]; do
  case $tries in
    0) kill -s "$signal" -- "-$process" ;;
    100) kill -s KILL -- "-$process" && exit ;;
  esac
  tries=$((tries + 1))
  sleep 0.1
done
