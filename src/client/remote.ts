/** Client of a remote server, over undici. This is the export of the package. */
import { Readable } from 'node:stream'
import { Agent, type Dispatcher, request as send } from 'undici'
import { type Client, type ClientOptions, createClient } from './client.ts'

export * from './client.ts'

export type RemoteOptions = ClientOptions &
  Required<Pick<ClientOptions, 'base' | 'token'>> & {
    /** PEM certificates to trust instead of the system's */
    ca?: string
    /** wraps each request; call `send` to send it */
    intercept?: (request: Request, send: () => Promise<Response>) => Promise<Response>
  }

/** Creates the client; `close()` closes its connections. */
export function remoteClient({ ca, intercept, ...options }: RemoteOptions): Client & { close(): Promise<void> } {
  const dispatcher = new Agent({
    headersTimeout: 0,
    bodyTimeout: 120_000,
    connect: { timeout: 10_000, ...(ca === undefined ? {} : { ca }) },
  })
  const transport = async (request: Request): Promise<Response> => {
    // undici's request() streams a body of known length; fetch() would buffer it or use chunked encoding.
    const answer = await send(request.url, {
      dispatcher,
      method: request.method as 'GET',
      headers: Object.fromEntries(request.headers),
      body: request.body as never,
      signal: request.signal,
    })
    const redirected = await followDownload(answer, request, dispatcher)
    if (redirected) return redirected
    const isEmpty = answer.statusCode === 204 || answer.statusCode === 304
    if (isEmpty) await answer.body.dump()
    // Converts the body: an unread undici body cannot be cancelled, and close() would wait for it.
    return new Response(isEmpty ? null : (Readable.toWeb(answer.body) as ReadableStream), {
      status: answer.statusCode,
      headers: answer.headers as Record<string, string>,
    })
  }
  const watched = intercept ? (request: Request) => intercept(request, () => transport(request)) : transport
  return { ...createClient(watched, options), close: () => dispatcher.close() }
}

/** Follows a redirect of a download to the document store, without the credentials of the request; null for other answers. */
async function followDownload(
  { statusCode, headers, body }: Dispatcher.ResponseData,
  { signal }: Request,
  dispatcher: Dispatcher,
): Promise<Response | null> {
  const { location, 'repr-digest': digest } = headers
  if ((statusCode !== 302 && statusCode !== 303) || typeof location !== 'string' || typeof digest !== 'string') return null
  await body.dump()
  const answer = await send(location, { dispatcher, signal })
  const { date: _, ...fields } = answer.headers as Record<string, string>
  return new Response(Readable.toWeb(answer.body) as ReadableStream, {
    status: answer.statusCode,
    headers: answer.statusCode === 200 ? { ...fields, 'repr-digest': digest } : fields,
  })
}
