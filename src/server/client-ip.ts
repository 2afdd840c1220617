/** Whose request it is: the socket's peer, or what trusted proxies say of it. */
import { BlockList, isIPv6 } from 'node:net'
import type { H3Event } from 'h3'

/** The client's address. `X-Forwarded-For` is read from the right, as long as each hop is a proxy that we trust. */
export function clientIp(event: H3Event, trusted: readonly string[]): string {
  const peer = plain(event.req.ip ?? event.runtime?.node?.req.socket.remoteAddress ?? '127.0.0.1')
  if (trusted.length === 0) return peer
  const proxies = networks(trusted)
  const hops = (event.req.headers.get('x-forwarded-for') ?? '')
    .split(',')
    .map((hop) => plain(hop.trim()))
    .filter((hop) => hop !== '')
  let client = peer
  while (hops.length > 0 && within(proxies, client)) client = hops.pop() ?? client
  return client
}

/** Whether an address is inside one of the networks (`10.0.0.0/8`, `::1`). */
export const isWithin = (address: string, list: readonly string[]): boolean => within(networks(list), plain(address))

function networks(list: readonly string[]): BlockList {
  const blocks = new BlockList()
  for (const entry of list) {
    const [address = '', bits] = entry.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    blocks.addSubnet(address, Number(bits ?? (family === 'ipv6' ? 128 : 32)), family)
  }
  return blocks
}

const within = (blocks: BlockList, address: string): boolean => blocks.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')

/** IPv4 in IPv6 clothes is IPv4. */
const plain = (address: string): string => address.replace(/^::ffff:(?=\d+\.)/i, '')
