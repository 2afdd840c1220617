/** The error of a command that found no archive. Suggests existing archives and the command that creates one. */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { usualDataFolders } from '../../config/load.ts'
import { findForeignOwner } from '../../db/embedded/account.ts'
import type { NoData } from '../../errors.ts'
import { shellWord } from '../../log/escape.ts'
import { dms } from '../../log/fix.ts'
import type { Cli } from './context.ts'
import { Failure } from './exit.ts'

interface Candidate {
  readonly path: string
  readonly message: string
}

/** A server on this machine answers sooner. */
const probeTimeoutMs = 1000

/** Returns the error with saved contexts, other data folders and a running server. Never throws. */
export async function describeMissingArchive({ message, folder }: NoData, cli: Cli): Promise<Failure> {
  const { config } = await cli.config()
  const candidates: Candidate[] = [
    ...(await findContexts(cli)),
    ...(await findDataFolders(cli, config.data_dir)),
    ...(await findServer(config.server).catch(() => [])),
  ]
  const fix = ['to create an archive there: ', dms`serve`, ', or pass --init']
  return new Failure('CONFIG', message, { fix, code: 'NO_DATA', details: { folder, candidates } })
}

async function findContexts({ env }: Cli): Promise<Candidate[]> {
  const { loadContexts } = await import('../remote/contexts-file.ts')
  const { byName } = await loadContexts(env).catch(() => ({ byName: new Map<string, { url: string }>() }))
  return [...byName].map(([name, { url }]) => ({ path: `context ${name}`, message: `${url} (--context ${name})` }))
}

/** Under sudo the data may be the user's. */
async function findDataFolders({ env }: Cli, dataDir: string): Promise<Candidate[]> {
  const folders = [...usualDataFolders({ env }), ...(env.SUDO_USER ? [join('/home', env.SUDO_USER, '.local/share/dms')] : [])]
  const others = [...new Set([env.DMS_DATA_DIR ?? '', ...folders])].filter((folder) => folder !== '' && folder !== dataDir)
  const candidates: Candidate[] = []
  for (const folder of others) {
    const owner = await findForeignOwner(folder)
    const hasArchive = ['postgres', 'files/.dms-store'].some((name) => existsSync(join(folder, name)))
    if (owner !== null)
      candidates.push({ path: 'data folder', message: `${folder} of user "${owner}" (sudo dms --data-dir ${shellWord(folder)} COMMAND)` })
    else if (hasArchive) candidates.push({ path: 'data folder', message: `${folder} (--data-dir ${shellWord(folder)})` })
  }
  return candidates
}

async function findServer(server: Parameters<typeof import('../remote/loopback-server.ts').openLocalEndpoint>[0]): Promise<Candidate[]> {
  const { fetchText, openLocalEndpoint } = await import('../remote/loopback-server.ts')
  const endpoint = openLocalEndpoint(server)
  try {
    const { status } = await fetchText(endpoint, '/healthz', probeTimeoutMs)
    return status === 200 ? [{ path: 'running server', message: `${endpoint.url} (--url ${endpoint.url})` }] : []
  } finally {
    await endpoint.dispatcher.destroy()
  }
}
