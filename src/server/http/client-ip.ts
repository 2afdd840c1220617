/** Address of the client: the peer of the socket, or the address reported by trusted proxies. */
import { BlockList, isIP, isIPv6 } from 'node:net'
import type { H3Event } from 'h3'

/** Returns the function that determines the client's address of a request. */
export function openClientIp(trusted: readonly string[]): (event: H3Event) => string {
  const forwardedIp = openForwardedIp(trusted)
  return ({ req, runtime }) => forwardedIp(req.ip ?? runtime?.node?.req.socket.remoteAddress, req.headers.get('x-forwarded-for'))
}

/**
 * Returns the function that determines the client's address from the socket's peer and `X-Forwarded-For`. It reads the header from the right, as long as
 * each hop is one of the `trusted` proxies.
 */
export function openForwardedIp(trusted: readonly string[]): (peer: string | undefined, forwarded: string | null) => string {
  const proxies = networks(trusted)
  return (address = '127.0.0.1', forwarded) => {
    const peer = normalizeAddress(address)
    if (trusted.length === 0) return peer
    const hops = (forwarded ?? '').split(',').map((hop) => normalizeAddress(hop))
    let client = peer
    // The client wrote an entry that is not an address, and everything before it.
    while (blockListHas(proxies, client) && isIP(hops.at(-1) ?? '')) client = hops.pop() ?? client
    return client
  }
}

/** Tells if an address is in one of the networks (`10.0.0.0/8`, `::1`). */
export const isWithin = (address: string, list: readonly string[]): boolean => blockListHas(networks(list), normalizeAddress(address))

function networks(list: readonly string[]): BlockList {
  const blocks = new BlockList()
  for (const entry of list) {
    const [address = '', bits] = entry.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    blocks.addSubnet(address, Number(bits ?? (family === 'ipv6' ? 128 : 32)), family)
  }
  return blocks
}

const blockListHas = (blocks: BlockList, address: string): boolean =>
  isIP(address) !== 0 && blocks.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')

/** Removes brackets and the port, which some proxies add, and the IPv6 prefix of an IPv4 address. */
const normalizeAddress = (address: string): string =>
  address
    .trim()
    .replace(/^\[([^\]]*)\](?::\d+)?$/, '$1')
    .replace(/^([\d.]+):\d+$/, '$1')
    .replace(/^::ffff:(?=\d+\.)/i, '')
