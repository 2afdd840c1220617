"""OpenStack Swift with its S3 API, all of its servers in one process, on free ports of this machine and a folder of its own.

Debian's packages swift-proxy, swift-account, swift-container and swift-object. Prints the port once it answers.
Arguments: the folder, the region.
"""
import os
import sys

import eventlet
from eventlet import wsgi

eventlet.patcher.monkey_patch(all=False, socket=True, select=True, thread=True)

from swift.account import server as account  # noqa: E402
from swift.common import utils  # noqa: E402
from swift.common.ring import RingBuilder  # noqa: E402
from swift.common.wsgi import loadapp  # noqa: E402
from swift.container import server as container  # noqa: E402
from swift.obj import server as objects  # noqa: E402

home, region = sys.argv[1:3]
# Otherwise those of this machine's /etc/swift.
utils.HASH_PATH_PREFIX = utils.HASH_PATH_SUFFIX = b'test'
os.makedirs(f'{home}/devices/disk')
# What is written lives as long as a test.
os.fsync = os.fdatasync = lambda _: None

proxy = f"""
[DEFAULT]
swift_dir = {home}
[pipeline:main]
pipeline = catch_errors gatekeeper listing_formats s3api tempauth copy slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
# On a busy machine Swift would count slow answers of its own servers as errors, and answer 503 for a minute after ten of them.
conn_timeout = 10
node_timeout = 60
error_suppression_limit = 1000000
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:s3api]
use = egg:swift#s3api
location = {region}
[filter:tempauth]
use = egg:swift#tempauth
user_test_ann = sec/ret+key== .admin
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
"""


class Cache:
    """What tempauth wants of a memcached."""

    def __init__(self):
        self.kept = {}

    def get(self, key, *_, **__):
        return self.kept.get(key)

    def set(self, key, value, *_, **__):
        self.kept[key] = value

    def delete(self, key, *_, **__):
        self.kept.pop(key, None)


class Quiet:
    def write(self, *_):
        pass

    def flush(self):
        pass


def serve(socket, app):
    eventlet.spawn(wsgi.server, socket, app, log=Quiet(), log_output=False)


stores = {'account': account.AccountController, 'container': container.ContainerController, 'object': objects.ObjectController}
for name, controller in stores.items():
    socket = eventlet.listen(('127.0.0.1', 0))
    port = socket.getsockname()[1]
    builder = RingBuilder(1, 1, 1)
    builder.add_dev({'id': 0, 'region': 1, 'zone': 1, 'ip': '127.0.0.1', 'port': port, 'device': 'disk', 'weight': 1, 'meta': '',
                     'replication_ip': '127.0.0.1', 'replication_port': port})
    builder.rebalance()
    builder.get_ring().save(f'{home}/{name}.ring.gz')
    serve(socket, controller({'devices': f'{home}/devices', 'mount_check': 'false', 'swift_dir': home}))

with open(f'{home}/proxy-server.conf', 'w') as file:
    file.write(proxy)
app = loadapp(f'{home}/proxy-server.conf')
cache = Cache()


def cached(env, start):
    env['swift.cache'] = cache
    return app(env, start)


socket = eventlet.listen(('127.0.0.1', 0))
serve(socket, cached)
print(socket.getsockname()[1], flush=True)
# Ends with whoever started it.
eventlet.hubs.trampoline(sys.stdin, read=True)
