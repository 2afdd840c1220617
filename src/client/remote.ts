/** A client of a server elsewhere, over undici. */
import { Agent, request as send } from 'undici'
import { type Client, createClient } from './client.ts'

export interface RemoteOptions {
  /** such as https://dms.example.org */
  base: string
  token(): Promise<string | null>
}

/** Makes it; `close()` ends its connections. */
export function remoteClient({ base, token }: RemoteOptions): Client & { close(): Promise<void> } {
  const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 120_000, connect: { timeout: 10_000 } })
  const transport = async (request: Request): Promise<Response> => {
    // undici's request streams a body of known length as it is; fetch would gather it first or send it in chunks.
    const answer = await send(request.url, {
      dispatcher,
      method: request.method as 'GET',
      headers: Object.fromEntries(request.headers),
      body: request.body as never,
    })
    const isEmpty = answer.statusCode === 204 || answer.statusCode === 304
    if (isEmpty) await answer.body.dump()
    return new Response(isEmpty ? null : (answer.body as unknown as ReadableStream), {
      status: answer.statusCode,
      headers: answer.headers as Record<string, string>,
    })
  }
  return { ...createClient(transport, { base, token }), close: () => dispatcher.close() }
}
