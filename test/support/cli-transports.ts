/** `dms` as users run it: on the machine of the server, and over HTTP. Both must behave equally. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { type RunOptions, run } from './processes/run.ts'
import { runHere } from './processes/run-here.ts'
import { startServer, tokenFor } from './servers/server.ts'

export const cliTransports = ['local', 'HTTP'] as const
export type CliTransport = (typeof cliTransports)[number]

/** Starts a dms with an empty folder for files; both are removed with the test. */
export async function startCli(transport: CliTransport) {
  const server = await startServer()
  const folder = await mkdtemp(join(tmpdir(), 'dms-cli-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const here = { DATABASE_URL: server.databaseUrl, DMS_DATA_DIR: server.dataDir, DMS_WORKER_CONCURRENCY: '1' }
  const envOf = async (user: typeof server.ada): Promise<Record<string, string>> =>
    // What uploads note of files must not lie where they are looked for.
    ({
      XDG_STATE_HOME: join(server.dataDir, 'state'),
      ...(transport === 'local'
        ? { ...here, DMS_AS: user.username }
        : { DMS_URL: server.url, DMS_TOKEN: await tokenFor(server.app, user) }),
    })
  const env = await envOf(server.ada)
  return {
    ...server,
    /** files for uploads and from downloads */
    folder,
    env,
    envOf,
    /** runs it as ada, in this process */
    dms: (args: readonly string[], options: RunOptions = {}) => runHere(args, { ...options, env: { ...env, ...options.env } }),
    /** runs it as ada, in a child process */
    dmsProcess: (args: readonly string[], options: RunOptions = {}) => run(args, { ...options, env: { ...env, ...options.env } }),
  }
}

/** Returns items and summary of a batch, from `-o jsonl`. */
export function readBatch(stdout: string) {
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line): Record<string, unknown> => JSON.parse(line))
  const last = lines.at(-1)
  return { items: lines.filter(({ type }) => type === 'item'), summary: last?.type === 'summary' ? last : null }
}
