#!/usr/bin/env bash
# Builds dms_<version>_<architecture>.deb in the current folder: dms with its Node, its packages and its systemd units.
#   npm run release:deb                   packs and installs this checkout first
#   deploy/deb/build.sh FOLDER            uses the installed package in FOLDER
# Needs dpkg-deb; without FOLDER also npm.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
installed=${1:-}

if [ -z "$installed" ]; then
  checkout=$(cd "$here/../.." && pwd)
  tarball=$(cd "$checkout" && npm pack --silent --pack-destination "$stage" | tail -n 1)
  npm install --global --loglevel=error --ignore-scripts --prefix "$stage/npm" "$stage/$tarball"
  installed=$stage/npm/lib/node_modules/dms
  node "$installed/bin/prune-packages.js"
fi

field() { node -p "require('$installed/package.json').$1"; }
# Debian sorts 1.0.0~rc.1 before 1.0.0.
version=$(field version | sed 's/-/~/')
architecture=$(dpkg --print-architecture)

root=$stage/root
install -d -m 0755 "$root/DEBIAN" "$root/etc/logrotate.d" "$root/usr/bin" "$root/usr/lib/systemd/system" "$root/usr/share/doc/dms"
cp -a "$installed" "$root/usr/lib/dms"
chmod -R u=rwX,go=rX "$root/usr/lib/dms"
install -m 0644 "$here"/../*.service "$here"/../*.timer "$here"/../*.socket "$root/usr/lib/systemd/system/"
install -m 0644 "$here/../dms.logrotate" "$root/etc/logrotate.d/dms"
install -m 0644 "$installed/LICENSE" "$root/usr/share/doc/dms/copyright"
ln -s ../lib/dms/bin/dms.js "$root/usr/bin/dms"

install -m 0755 "$here/postinst" "$here/prerm" "$here/postrm" "$root/DEBIAN/"
echo /etc/logrotate.d/dms >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/control" <<EOF
Package: dms
Version: $version
Architecture: $architecture
Maintainer: dms maintainers <dms@localhost>
Installed-Size: $(du -sk "$root/usr" | cut -f 1)
Depends: ca-certificates, libatomic1, libc6 (>= 2.28), libgcc-s1, libstdc++6, passwd
Recommends: logrotate, tesseract-ocr
Section: net
Priority: optional
Description: document management server
 Stores documents, extracts their text, makes them searchable, syncs them from
 WebDAV, S3 and folders, and serves them over REST and WebSocket. Brings its
 own Node, PostgreSQL and OCR.
EOF
dpkg-deb --root-owner-group --build "$root" "dms_${version}_$architecture.deb"
