/**
 * Constant answers, rendered and compressed once. The OpenAPI document is public and large: rendering it for each request would let anonymous
 * clients block the server (`bench/attackers.ts`).
 */
import { hash } from 'node:crypto'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { H3Event } from 'h3'
import { FastResponse } from 'srvx'
import { matchesEtag } from '../../http/files.ts'

type Encoding = 'br' | 'gzip' | 'identity'

interface Representation {
  body: Buffer<ArrayBuffer>
  etag: string
}

/** Returns a handler that answers with the text of `render`. The first request calls `render`. Names of `headers` are lower case. */
export function precompressed(render: () => string, headers: Readonly<Record<string, string>>): (event: H3Event) => Promise<Response> {
  let cached: Promise<Record<Encoding, Representation>> | undefined
  return async ({ req }) => {
    cached ??= representations(Buffer.from(render()))
    const encoding = encodingFor(req.headers.get('accept-encoding') ?? '')
    const { body, etag } = (await cached)[encoding]
    const all = { ...headers, etag, vary: 'accept-encoding', 'cache-control': 'no-cache' }
    if (matchesEtag(req.headers.get('if-none-match'), etag)) return new Response(null, { status: 304, headers: all })
    // The answers of all requests share these bytes.
    return new FastResponse(req.method === 'HEAD' ? null : body, {
      headers: { ...all, 'content-length': String(body.length), ...(encoding === 'identity' ? {} : { 'content-encoding': encoding }) },
    })
  }
}

async function representations(identity: Buffer<ArrayBuffer>): Promise<Record<Encoding, Representation>> {
  const digest = hash('sha256', identity, 'base64url')
  const [br, gz] = await Promise.all([
    promisify(brotliCompress)(identity, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }),
    promisify(gzip)(identity, { level: 9 }),
  ])
  return {
    identity: { body: identity, etag: `"${digest}"` },
    // Each representation has its own strong ETag (RFC 9110, 8.8.3).
    br: { body: Buffer.from(br), etag: `"${digest}-br"` },
    gzip: { body: Buffer.from(gz), etag: `"${digest}-gzip"` },
  }
}

/** Returns the encoding with the highest weight in Accept-Encoding, and of several the smallest (RFC 9110, 12.5.3). */
function encodingFor(header: string): Encoding {
  const weights = new Map(header.split(',').map(weightOf))
  const weightOfOne = (name: Encoding): number => weights.get(name) ?? weights.get('*') ?? (name === 'identity' ? Number.MIN_VALUE : 0)
  const [best] = (['br', 'gzip', 'identity'] as const)
    .map((name) => ({ name, weight: weightOfOne(name) }))
    .sort((one, other) => other.weight - one.weight)
  return best && best.weight > 0 ? best.name : 'identity'
}

function weightOf(item: string): [name: string, weight: number] {
  const [name = '', ...parameters] = item.toLowerCase().split(';')
  const weight = parameters.map((parameter) => /^\s*q\s*=\s*([\d.]+)\s*$/.exec(parameter)?.[1]).find((q) => q !== undefined)
  return [name.trim(), weight === undefined ? 1 : Number(weight)]
}
