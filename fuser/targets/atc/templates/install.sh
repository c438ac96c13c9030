#!/bin/sh
# Builds the ONNX parser plugin for @NAMES@ (opset @OPSET@) and installs it where ATC looks:
# $ASCEND_OPP_PATH/vendors/@VENDOR@/framework/onnx/.
# ABI=1 ./install.sh builds for a CANN of the new C++ ABI.
set -eu
cd "$(dirname "$0")"

fail() {
    for line in "$@"; do echo "install.sh: $line" >&2; done
    exit 2
}

[ -n "${ASCEND_OPP_PATH:-}" ] || fail \
    "ASCEND_OPP_PATH is not set; source the toolkit's set_env.sh, such as" \
    ". /usr/local/Ascend/ascend-toolkit/set_env.sh"
toolkit=${ASCEND_TOOLKIT_HOME:-${ASCEND_HOME_PATH:-}}
[ -f "$toolkit/include/register/register.h" ] || fail \
    "there is no include/register/register.h under '$toolkit'" \
    "set ASCEND_TOOLKIT_HOME to the CANN toolkit"
command -v "${CXX:-g++}" >/dev/null 2>&1 || fail "there is no ${CXX:-g++}; install a C++ compiler"

vendors=$ASCEND_OPP_PATH/vendors
vendor=@VENDOR@
target=$vendors/$vendor/framework/onnx
mkdir -p "$target" || fail "can't write to $vendors; run this as the user who installed CANN"
# shellcheck disable=SC2086  # several flags are meant
"${CXX:-g++}" -std=c++11 ${CXXFLAGS:--O2} -fPIC -shared -Wall -Wextra "-D_GLIBCXX_USE_CXX11_ABI=${ABI:-0}" \
    -I. -isystem "$toolkit/include" @SOURCES@ -o "$target/libcust_onnx_parsers.so"

# ATC reads the vendors of this list, first come first served.
config=$vendors/config.ini
if ! grep -qs '^load_priority=' "$config"; then
    echo "load_priority=$vendor" >>"$config"
elif ! grep -qs "^load_priority=\(.*,\)\{0,1\}$vendor\(,.*\)\{0,1\}\$" "$config"; then
    sed "s/^load_priority=/load_priority=$vendor,/" "$config" >"$config.new"
    mv "$config.new" "$config"
fi
echo "installed $target/libcust_onnx_parsers.so"
