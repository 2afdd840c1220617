/**
 * Blocks requests of sources to forbidden addresses. Names are checked by the addresses that they resolve to when a socket is opened, which
 * defeats DNS rebinding.
 */
import { type LookupAddress, type LookupAllOptions, lookup as systemLookup } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { buildConnector } from 'undici'
import { SourceFailure } from '../../ports/source-type.ts'

/** Never allowed: unspecified, link-local, multicast, reserved and broadcast addresses, and cloud metadata services. */
const alwaysBlocked = blockList([
  ...['0.0.0.0/8', '224.0.0.0/4', '240.0.0.0/4', '169.254.0.0/16', '100.100.100.200/32', '192.0.0.192/32'],
  ...['::/128', 'ff00::/8', 'fe80::/10', 'fd00:ec2::254/128', 'fd20:ce::254/128'],
])

/** Private, shared (CGNAT), loopback, benchmark and documentation networks, and IPv6 forms of them. */
const privateNetworks = blockList([
  ...['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '127.0.0.0/8', '192.0.0.0/24', '192.0.2.0/24'],
  ...['192.88.99.0/24', '198.18.0.0/15', '198.51.100.0/24', '203.0.113.0/24'],
  ...['::1/128', 'fc00::/7', 'fec0::/10', '64:ff9b:1::/48', '100::/64', '2001::/23', '2001:db8::/32', '3fff::/20', '5f00::/16'],
])

/** Returns true if an IP address (IPv6 without brackets) is allowed. An IPv4 address embedded in IPv6 is checked as well. */
export function isAllowed(address: string, allowPrivateNetworks: boolean): boolean {
  const plain = address.replace(/%.*$/, '')
  const inner = isIP(plain) === 6 ? extractIpv4(plain) : null
  const all = inner === null ? [plain] : [plain, inner]
  return (
    isIP(plain) !== 0 && !all.some((each) => contains(alwaysBlocked, each) || (!allowPrivateNetworks && contains(privateNetworks, each)))
  )
}

export interface Guard {
  readonly allowPrivateNetworks: boolean
  /** resolver; default: dns.lookup */
  readonly lookup?: (
    hostname: string,
    options: LookupAllOptions,
    done: (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => void,
  ) => void
}

/** Throws SourceFailure SOURCE_ADDRESS_FORBIDDEN where the host of a URL is a forbidden IP address. Accepts any name. */
export function assertHostAllowed(hostname: string, { allowPrivateNetworks }: Guard): void {
  const address = hostname.replace(/^\[|\]$/g, '')
  if (isIP(address) !== 0 && !isAllowed(address, allowPrivateNetworks)) throw new SourceFailure('SOURCE_ADDRESS_FORBIDDEN')
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

/** Returns a lookup that removes forbidden addresses. Fails with SourceFailure SOURCE_ADDRESS_FORBIDDEN where none is left. */
export function guardedLookup({ allowPrivateNetworks, lookup = systemLookup }: Guard): LookupFunction {
  return (hostname, options, done) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error) return done(error, '')
      const allowed = found.filter(({ address }) => isAllowed(address, allowPrivateNetworks))
      const [first] = allowed
      if (!first) return done(new SourceFailure('SOURCE_ADDRESS_FORBIDDEN'), '')
      if (options.all) done(null, allowed)
      else done(null, first.address, first.family)
    })
  }
}

function blockList(networks: readonly string[]): BlockList {
  const list = new BlockList()
  for (const network of networks) {
    const [address = '', bits] = network.split('/')
    list.addSubnet(address, Number(bits), address.includes(':') ? 'ipv6' : 'ipv4')
  }
  return list
}

const contains = (list: BlockList, address: string) => list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')

/** Returns the IPv4 address embedded in an IPv6 address (mapped, compatible, translated, NAT64, 6to4, Teredo), or null. */
function extractIpv4(address: string): string | null {
  const groups = parseIpv6Groups(address)
  const [first = 0, second = 0] = groups
  const dotted = (high = 0, low = 0) => [high >> 8, high & 255, low >> 8, low & 255].join('.')
  const starts = (...start: number[]) => start.every((group, index) => groups[index] === group)
  if (first === 0x2002) return dotted(second, groups[2])
  if (starts(0x2001, 0)) return dotted(~(groups[6] ?? 0) & 0xffff, ~(groups[7] ?? 0) & 0xffff)
  const isWrapped = starts(0, 0, 0, 0, 0, 0xffff) || starts(0, 0, 0, 0, 0xffff, 0) || starts(0x64, 0xff9b, 0, 0, 0, 0)
  const isCompatible = starts(0, 0, 0, 0, 0, 0) && (groups[6] !== 0 || (groups[7] ?? 0) > 1)
  return isWrapped || isCompatible ? dotted(groups[6], groups[7]) : null
}

/** Returns the eight 16-bit groups of a valid IPv6 address. */
function parseIpv6Groups(address: string): number[] {
  const plain = address.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, ...bytes: string[]) => {
    const [a = 0, b = 0, c = 0, d = 0] = bytes.slice(0, 4).map(Number)
    return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
  })
  const [head = '', tail = ''] = plain.split('::')
  const numbers = (part: string) => (part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16)))
  const [start, end] = [numbers(head), numbers(tail)]
  return [...start, ...Array<number>(8 - start.length - end.length).fill(0), ...end]
}
