#!/bin/sh
# Compiles @MODEL@ for Ascend: ./convert.sh [SOC_VERSION [further options of atc]]
# Writes @OUTPUT@.om, and check_result.json with every operator that ATC refused.
set -eu
cd "$(dirname "$0")"

fail() {
    for line in "$@"; do echo "convert.sh: $line" >&2; done
    exit 2
}

command -v atc >/dev/null 2>&1 || fail \
    "there is no atc. Install the CANN toolkit, then source its set_env.sh, such as" \
    ". /usr/local/Ascend/ascend-toolkit/set_env.sh"
[ -n "${ASCEND_OPP_PATH:-}" ] || fail \
    "ASCEND_OPP_PATH is not set; source the toolkit's set_env.sh in this shell"

soc=${1:-${SOC_VERSION:-@SOC@}}
[ "$#" -eq 0 ] || shift
[ -n "$soc" ] || fail \
    "say which chip: ./convert.sh Ascend310P3" \
    "npu-smi info prints its name; write Ascend before it"
@SHAPE@@PLUGIN@
exec atc \
@OPTIONS@ "$@"
