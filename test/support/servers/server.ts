/** startApp() behind a real port, for tests of sockets. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readlink } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { App } from '../../../src/app.ts'
import { buildServer } from '../../../src/server/http/assemble.ts'
import { listen } from '../../../src/server/listen.ts'
import { startApp } from '../app.ts'

/** Starts it; it is closed with the test. */
export async function startServer(settings: Parameters<typeof startApp>[0] = {}) {
  const dms = await startApp({ 'server.port': 0, ...settings })
  const listening = await listen(buildServer(dms.app), dms.app.config)
  onTestFinished(() => listening.close(0))
  const { port } = new URL(listening.url)
  const token = await tokenFor(dms.app, dms.ada)
  return {
    ...dms,
    listening,
    url: listening.url,
    token,
    /** Opens a connected socket to it. */
    dial: async (): Promise<Socket> => {
      const socket = connect(Number(port), '127.0.0.1')
      await once(socket, 'connect')
      return socket
    },
    /** Sends raw bytes, and returns all bytes until the other side closes; rejects after a reset. */
    say: async (text: string | Buffer): Promise<string> => {
      const socket = connect(Number(port), '127.0.0.1')
      socket.write(text)
      return hearOut(socket)
    },
    fetch: (path: string, init: RequestInit = {}) =>
      fetch(new URL(path, listening.url), {
        ...init,
        headers: { authorization: `Bearer ${token}`, ...(init.headers as Record<string, string>) },
      }),
  }
}

/** Returns all bytes of a socket until its end. */
export async function hearOut(socket: Socket): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of socket) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

export async function tokenFor(app: App, user: { id: string; token_version: number }): Promise<string> {
  const now = Math.floor(Date.now() / 1000)
  return app.tokens.sign({ sub: user.id, jti: randomUUID(), iat: now, exp: now + 3600, ver: user.token_version })
}

/** One part of a multipart body. */
export interface RawPart {
  /** everything after `form-data` in its disposition, as `; name="file"; filename="a.txt"` */
  disposition: string
  body: string | Buffer
}

export const boundary = 'tEsT-boundary'
export const multipartType = `multipart/form-data; boundary=${boundary}`

/** A multipart body, built by hand so that it can be malformed. */
export const multipartBody = (parts: readonly RawPart[], end = `--${boundary}--\r\n`): Buffer =>
  Buffer.concat([
    ...parts.flatMap(({ disposition, body }) => [
      Buffer.from(`--${boundary}\r\ncontent-disposition: form-data${disposition}\r\n\r\n`),
      Buffer.from(body),
      Buffer.from('\r\n'),
    ]),
    Buffer.from(end),
  ])

export const filePart = (body: string | Buffer, filename = 'a.txt', field = 'file'): RawPart => ({
  disposition: `; name="${field}"; filename="${filename}"`,
  body,
})
export const fieldPart = (name: string, value: string): RawPart => ({ disposition: `; name="${name}"`, body: value })

/** Returns the files of the document store by kind: stored, staged, or markers. */
export async function storeFiles(dataDir: string): Promise<{ named: string[]; staged: string[] }> {
  const all = await readdir(join(dataDir, 'files'), { recursive: true, withFileTypes: true }).catch(() => [])
  const files = all.filter((entry) => entry.isFile())
  return {
    named: files
      .filter(({ name }) => /^[0-9a-f]{64}(\.[0-9a-z]{8,32})?$/.test(name))
      .map(({ name }) => name.slice(0, 64))
      .sort(),
    staged: files.filter(({ name }) => /\.(part|named|link)$/.test(name)).map(({ name }) => name),
  }
}

/** Returns files of a folder that this process has open. */
export async function openFiles(folder: string): Promise<string[]> {
  const links = await Promise.all((await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')))
  return links.filter((link) => link.startsWith(folder))
}
