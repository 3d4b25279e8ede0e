#!/usr/bin/env bash
# README's commands on a Debian that has nothing but what README names, in a folder made by debootstrap:
#
#   tests/tools/bare_machine.sh SUITE [STEP ...]    SUITE: bookworm, trixie, sid; steps: demo, test, install, page (all)
#
# As root; about 10 minutes for a demo, of which 2 are debootstrap's, and an hour for the tests. pip is told there what it
# is told here. Variables: FOLDER, where Debian is made or was (build/bare/SUITE); SHARED, folders of this machine that
# can be read there too, such as those that pip's settings name.
set -euo pipefail

suite=$1
shift
steps=${*:-demo test install page}
cd "$(dirname "$0")/../.."
root=${FOLDER:-$PWD/build/bare/$suite}
there=/root/torch_dml_ops # as `git clone` calls it
within() { chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin "${settings[@]}" bash -euc "$1"; }

if [ -z "${BARE_MACHINE_MOUNTS:-}" ]; then # what is mounted below ends with the process
  [ -e "$root/etc/debian_version" ] || debootstrap --variant=minbase "$suite" "$root"
  BARE_MACHINE_MOUNTS=1 FOLDER=$root exec unshare --mount --pid --fork "$0" "$suite" $steps
fi
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"
for folder in ${SHARED:-}; do
  mkdir -p "$root$folder"
  mount --bind "$folder" "$root$folder"
  mount -o remount,bind,ro "$root$folder"
done
cp --dereference /etc/resolv.conf "$root/etc/"

mapfile -t settings < <(
  python3 -m pip config list | sed -nE "s/^(global|:env:)\.([a-z-]+)='(.*)'$/\2=\3/p" | sort -u -t= -k1,1 |
    while IFS='=' read -r name value; do
      name=${name//-/_}
      echo "PIP_${name^^}=$value"
    done
)

# The line of README that says what is needed, as it stands there. (The mirror may be a snapshot of an earlier day.)
needed=$(sed -nE 's/^\$ (apt install [^#]*).*$/\1/p' README.md)
[ -n "$needed" ] || { echo "README.md does not say what is needed, in a line that starts with \$ apt install"; exit 1; }
within "export DEBIAN_FRONTEND=noninteractive; apt-get -q -o Acquire::Check-Valid-Until=false update; ${needed/apt install/apt-get -q -y install}"

for setting in "${settings[@]}"; do
  if [[ $setting = PIP_CERT=* ]]; then install -D "${setting#*=}" "$root/root/certificates"; fi
done
settings=("${settings[@]/#PIP_CERT=*/PIP_CERT=/root/certificates}")

mkdir -p "$root$there"
git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -T - -c | tar -x -C "$root$there"

for step in $steps; do
  echo "=== $suite: $step"
  case $step in
    demo | test) within "cd $there && make $step" ;;
    install)
      within "python3 -m venv --clear /root/installed && . /root/installed/bin/activate && cd $there
        pip install -q torch==2.13.0
        $(sed -nE '/^## Install/,/^## [^I]/s/^\$ (pip install [^#]*).*$/\1/p' README.md)"
      ;;
    page) within "cd / && . /root/installed/bin/activate && python -m torch_dml_ops && python -m doctest $there/README.md" ;;
    *) echo "no such step: $step"; exit 2 ;;
  esac
done
