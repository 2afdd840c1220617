/** A registry of npm on 127.0.0.1 with the production packages of package-lock.json, packed from node_modules: installations need no network. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'

type Manifest = Record<string, unknown> & { name?: string; version: string; dev?: boolean; resolved?: string }

interface Package {
  manifest: Manifest
  /** folder below node_modules, absolute */
  folder: string
}

export interface NpmRegistry {
  /** Base URL, with `/` at its end. */
  readonly url: string
  stop(): Promise<void>
}

/** Starts the registry of the packages installed in `root`. */
export async function startNpmRegistry(root: string): Promise<NpmRegistry> {
  const packages = await readPackages(root)
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '')
    const tarball = /^\/(.+)\/-\/(.+)\.tgz$/.exec(path)
    const found = packages.get(tarball ? `${tarball[1]}` : path.slice(1))
    const requested = tarball && found?.get(tarball[2] ?? '')
    if (requested) sendTarball(requested, response)
    else if (found && !tarball) sendVersions(found, url, response)
    else response.writeHead(404).end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  return {
    url,
    stop: async () => {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

/** Returns the production packages by name and version. */
async function readPackages(root: string): Promise<Map<string, Map<string, Package>>> {
  const lock = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as { packages: Record<string, Manifest> }
  const packages = new Map<string, Map<string, Package>>()
  for (const [path, manifest] of Object.entries(lock.packages)) {
    if (path === '' || manifest.dev) continue
    const name = manifest.name ?? path.split('node_modules/').at(-1) ?? ''
    const versions = packages.get(name) ?? new Map<string, Package>()
    packages.set(name, versions.set(manifest.version, { manifest: { ...manifest, name }, folder: join(root, path) }))
  }
  return packages
}

function sendVersions(found: ReadonlyMap<string, Package>, url: string, response: ServerResponse): void {
  const versions = [...found].map(([version, { manifest }]) => {
    const { integrity: _, resolved: __, ...rest } = manifest
    return [version, { ...rest, dist: { tarball: `${url}${manifest.name}/-/${version}.tgz` } }] as const
  })
  const latest = versions.at(-1)
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ name: latest?.[1].name, 'dist-tags': { latest: latest?.[0] }, versions: Object.fromEntries(versions) }))
}

/** Sends the package without compression: npm accepts both. */
function sendTarball({ folder }: Package, response: ServerResponse): void {
  const tar = spawn('tar', ['--exclude=./node_modules', '--transform=s,^\\.,package,', '-C', folder, '-cf', '-', '.'])
  tar.stdout.pipe(response)
  tar.on('exit', (code) => {
    if (code !== 0) response.destroy()
  })
}
