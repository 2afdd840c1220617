/**
 * Blocks requests of sources to forbidden addresses. Names are checked by the addresses that they resolve to when a socket is opened, which
 * defeats DNS rebinding.
 */
import { type LookupAddress, type LookupAllOptions, lookup as systemLookup } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { buildConnector } from 'undici'
import { SourceFailure } from '../../ports/source-type.ts'

/** Never allowed: unspecified, link-local, multicast, reserved, broadcast and Teredo addresses, and cloud metadata services. */
const alwaysBlocked = blockList([
  ...['0.0.0.0/8', '224.0.0.0/4', '240.0.0.0/4', '169.254.0.0/16', '100.100.100.200/32', '168.63.129.16/32', '192.0.0.192/32'],
  ...['::/128', 'ff00::/8', 'fe80::/10', 'fd00:ec2::254/128', 'fd20:ce::254/128', '2001::/32'],
])

/** Private, shared (CGNAT), loopback, benchmark and documentation networks. */
const privateNetworks = blockList([
  ...['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '127.0.0.0/8', '192.0.0.0/24', '192.0.2.0/24'],
  ...['192.88.99.0/24', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
  ...['::/96', 'fc00::/7', 'fec0::/10', '64:ff9b:1::/48', '100::/64', '2001::/23', '2001:db8::/32', '3fff::/20', '5f00::/16'],
])

/** Returns a list of networks. An IPv4 network includes its IPv6 forms: mapped (as in BlockList), compatible, translated, NAT64 (also local) and 6to4. */
function blockList(networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', length] = network.split('/')
    const bits = Number(length)
    list.addSubnet(address, bits, address.includes(':') ? 'ipv6' : 'ipv4')
    if (address.includes(':')) continue
    const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number)
    list.addSubnet(`2002:${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}::`, 16 + bits, 'ipv6')
    // ::/104 includes the loopback address ::1.
    const prefixes = a === 0 ? ['::ffff:0:', '64:ff9b::'] : ['::', '::ffff:0:', '64:ff9b::', '64:ff9b:1::']
    for (const prefix of prefixes) list.addSubnet(`${prefix}${address}`, 96 + bits, 'ipv6')
  }
  return list
}

/** Returns true if an IP address (IPv6 without brackets) is allowed. */
export function isAllowed(address: string, { allowPrivateNetworks }: Pick<Guard, 'allowPrivateNetworks'>): boolean {
  const plain = address.replace(/%.*$/, '')
  const family = isIP(plain)
  if (family === 0) return false
  const isListed = (list: BlockList) => list.check(plain, family === 6 ? 'ipv6' : 'ipv4')
  return !isListed(alwaysBlocked) && (allowPrivateNetworks || !isListed(privateNetworks))
}

export interface Guard {
  readonly allowPrivateNetworks: boolean
  /** resolver; default: dns.lookup */
  readonly lookup?: (
    hostname: string,
    options: LookupAllOptions,
    done: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
  ) => void
}

/** Throws SourceFailure SOURCE_ADDRESS_FORBIDDEN if the host of a URL is a forbidden IP address. Accepts any name. */
export function assertHostAllowed(hostname: string, { allowPrivateNetworks }: Guard): void {
  const address = hostname.replace(/^\[|\]$/g, '')
  if (isIP(address) !== 0 && !isAllowed(address, { allowPrivateNetworks })) throw new SourceFailure('SOURCE_ADDRESS_FORBIDDEN')
}

/** Returns a connector for undici that opens sockets to allowed addresses only. `ca`: certificates; `timeout` in milliseconds. */
export function guardedConnector(guard: Guard, options: { ca?: readonly string[]; timeout: number }): buildConnector.connector {
  const connect = buildConnector({
    ca: options.ca as string[] | undefined,
    timeout: options.timeout,
    allowH2: false,
    lookup: guardedLookup(guard),
  })
  return (target, done) => {
    try {
      // node:net calls lookup for names only, so IP addresses are checked here.
      assertHostAllowed(target.hostname, guard)
    } catch (error) {
      return done(error as SourceFailure, null)
    }
    connect(target, done)
  }
}

/** Returns a lookup that removes forbidden addresses. Fails with SourceFailure SOURCE_ADDRESS_FORBIDDEN if none is left. */
function guardedLookup({ allowPrivateNetworks, lookup = systemLookup }: Guard): LookupFunction {
  return (hostname, options, done) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return done(error, '')
      const allowed = addresses.filter(({ address }) => isAllowed(address, { allowPrivateNetworks }))
      const [first] = allowed
      if (!first) return done(new SourceFailure('SOURCE_ADDRESS_FORBIDDEN'), '')
      if (options.all) done(null, allowed)
      else done(null, first.address, first.family)
    })
  }
}
