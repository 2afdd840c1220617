/**
 * Measures the start of commands: time and CPU time of `dms --help` and others, alternating with a Node that does nothing.
 *
 *   node bench/cli.ts [--rounds 20] [--program bin/dms.js]
 *
 * Also lists the packages, or files of the build, that each command loads, and fails if `--help` and the like load a database or HTTP client.
 * `dms documents list` runs beside a server. On a busy machine compare CPU times and minima.
 */
import { execFileSync, spawn } from 'node:child_process'
import { once as onceEmitted } from 'node:events'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { median } from './quantile.ts'
import { report } from './report/figure.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '20' },
    program: { type: 'string', default: fileURLToPath(new URL('../bin/dms.js', import.meta.url)) },
  },
})

const lines: Record<string, string[]> = {
  'node -e 0': ['-e', '0'],
  'dms --help': [values.program, '--help'],
  'dms --version': [values.program, '--version'],
  'dms sources sync --help': [values.program, 'sources', 'sync', '--help'],
  'dms completion bash': [values.program, 'completion', 'bash'],
  'dms documents list': [values.program, 'documents', 'list'],
}
// The last two are files of the build: all for a server in this process, and for one elsewhere (build.js).
const heavy = [
  'pg',
  'kysely',
  'h3',
  'zod',
  'undici',
  'pino',
  'sharp',
  'pdfjs-dist',
  'tesseract.js',
  'meilisearch',
  'in-process',
  'over-http',
]

const folder = mkdtempSync(join(tmpdir(), 'dms-bench-'))
// PostgreSQL does not run as root: its account must be able to enter the folder.
chmodSync(folder, 0o711)
const env = { ...process.env, DMS_DATA_DIR: join(folder, 'data'), XDG_CONFIG_HOME: folder, XDG_STATE_HOME: folder, DMS_SERVER_PORT: '0' }
const server = spawn(process.execPath, [values.program, 'serve', '--no-worker'], { env, stdio: ['ignore', 'ignore', 'pipe'] })
try {
  for await (const chunk of server.stderr.iterator({ destroyOnReturn: false })) if (String(chunk).includes('listening on')) break
  for (const args of Object.values(lines)) run(args)
  const taken: Record<string, Run[]> = {}
  for (let round = 0; round < Number(values.rounds); round++)
    for (const [name, args] of Object.entries(lines)) {
      taken[name] ??= []
      taken[name].push(run(args))
    }
  const bareMs = median((taken['node -e 0'] ?? []).map(({ ms }) => ms))
  for (const [name, args] of Object.entries(lines)) {
    const loaded = packagesOf(args)
    const runs = taken[name] ?? []
    const [ms, cpuMs] = [median(runs.map((one) => one.ms)), median(runs.map((one) => one.cpuMs))]
    const leastMs = Math.min(...runs.map((one) => one.ms))
    const figures = `${format(ms)} ms (least ${format(leastMs)})  CPU ${format(cpuMs)} ms  ${(ms / bareMs).toFixed(2)} of bare Node`
    if (name !== 'node -e 0') report({ measure: name, unit: 'ms', value: ms, peers: { 'node -e 0': bareMs }, better: 'lower' })
    console.log(`${name.padEnd(26)} ${figures}   ${loaded.join(', ')}`)
    const unwanted = name === 'dms documents list' ? [] : loaded.filter((one) => heavy.includes(one))
    if (unwanted.length > 0) throw new Error(`${name} loads ${unwanted.join(', ')}`)
  }
} finally {
  server.kill()
  await onceEmitted(server, 'exit')
  rmSync(folder, { recursive: true })
}

interface Run {
  ms: number
  cpuMs: number
}

/** Runs Node once. */
function run(args: string[]): Run {
  const cpuFile = join(folder, 'cpu')
  const writeCpu = `import fs from 'node:fs';process.on('exit',()=>fs.writeFileSync(${JSON.stringify(cpuFile)},JSON.stringify(process.cpuUsage())))`
  const start = performance.now()
  execFileSync(process.execPath, [`--import=data:text/javascript,${encodeURIComponent(writeCpu)}`, ...args], { env, stdio: 'ignore' })
  const ms = performance.now() - start
  const { user, system } = JSON.parse(readFileSync(cpuFile, 'utf8')) as NodeJS.CpuUsage
  return { ms, cpuMs: (user + system) / 1000 }
}

function format(ms: number): string {
  return ms.toFixed(0).padStart(5)
}

/** Returns the loaded packages and the loaded files of the build, without built-in modules of Node. */
function packagesOf(args: string[]): string[] {
  const [hook, list] = [join(folder, 'hook.mjs'), join(folder, 'loaded')]
  writeFileSync(list, '')
  writeFileSync(
    hook,
    `import { appendFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
registerHooks({ load(url, context, next) { appendFileSync(${JSON.stringify(list)}, url + '\\n'); return next(url, context) } })`,
  )
  execFileSync(process.execPath, [`--import=${hook}`, ...args], { env, stdio: 'ignore' })
  const loaded = readFileSync(list, 'utf8')
  return [
    ...new Set(
      [...loaded.matchAll(/\/node_modules\/((?:@[^/]+\/)?[^/\n]+)|\/dist\/([a-z-]+?)(?:-[\w-]{8})?\.js\n/g)].map(
        ([, one, file]) => one ?? file ?? '',
      ),
    ),
  ]
}
