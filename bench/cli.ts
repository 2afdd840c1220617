/**
 * How long the shell waits for dms itself: `dms --help` and others against a Node that does nothing, taking turns.
 *
 *   node bench/cli.ts [--rounds 20] [--program bin/dms.js]
 *
 * Also says which packages, or files of the build, each of them loads; fails where one that talks to a database or a server is among them.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

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
try {
  for (const args of Object.values(lines)) once(args)
  const taken: Record<string, number[]> = {}
  for (let round = 0; round < Number(values.rounds); round++)
    for (const [name, args] of Object.entries(lines)) {
      taken[name] ??= []
      taken[name].push(once(args))
    }
  const bare = median(taken['node -e 0'] ?? [])
  for (const [name, args] of Object.entries(lines)) {
    const loaded = packagesOf(args)
    const ms = median(taken[name] ?? [])
    console.log(`${name.padEnd(26)} ${ms.toFixed(0).padStart(5)} ms  ${(ms / bare).toFixed(2)} of bare Node   ${loaded.join(', ')}`)
    const unwanted = loaded.filter((one) => heavy.includes(one))
    if (unwanted.length > 0) throw new Error(`${name} loads ${unwanted.join(', ')}`)
  }
} finally {
  rmSync(folder, { recursive: true })
}

/** Milliseconds of one run. */
function once(args: string[]): number {
  const start = performance.now()
  execFileSync(process.execPath, args, { stdio: 'ignore' })
  return performance.now() - start
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((one, other) => one - other)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

/** The packages whose files are loaded, and the files of the build; what Node itself brings does not count. */
function packagesOf(args: string[]): string[] {
  const [hook, list] = [join(folder, 'hook.mjs'), join(folder, 'loaded')]
  writeFileSync(list, '')
  writeFileSync(
    hook,
    `import { appendFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
registerHooks({ load(url, context, next) { appendFileSync(${JSON.stringify(list)}, url + '\\n'); return next(url, context) } })`,
  )
  execFileSync(process.execPath, [`--import=${hook}`, ...args], { stdio: 'ignore' })
  const loaded = readFileSync(list, 'utf8')
  return [
    ...new Set(
      [...loaded.matchAll(/\/node_modules\/((?:@[^/]+\/)?[^/\n]+)|\/dist\/([a-z-]+?)(?:-[\w-]{8})?\.js\n/g)].map(
        ([, one, file]) => one ?? file ?? '',
      ),
    ),
  ]
}
