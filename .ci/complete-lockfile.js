// Adds to package-lock.json the packages of other platforms that npm left out because the registry in use does not have them.
// Without them `npm ci` refuses the whole lockfile, although it would never install them here. Run after a change of dependencies:
//   node .ci/complete-lockfile.js
import { readFileSync, writeFileSync } from 'node:fs'

const path = new URL('../package-lock.json', import.meta.url)
const lock = JSON.parse(readFileSync(path, 'utf8'))
const systems = ['android', 'darwin', 'freebsd', 'linux', 'netbsd', 'openbsd', 'openharmony', 'sunos', 'win32', 'wasm32']
const processors = ['arm64', 'arm', 'ia32', 'loong64', 'ppc64', 'riscv64', 's390x', 'x64']

const added = []
for (const [place, parent] of Object.entries(lock.packages)) {
  for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
    if (`node_modules/${name}` in lock.packages || `${place}/node_modules/${name}` in lock.packages) continue
    const words = name.split(/[-/]/)
    const os = systems.filter((system) => words.includes(system))
    const cpu = processors.filter((processor) =>
      words.some((word) => word === processor || (processor === 'arm' && /^arm(hf|v\d)?$/.test(word))),
    )
    if (os.length === 0) throw new Error(`${name} (wanted by ${place}) is missing, and its name does not say for which system it is`)
    const libc = words.includes('musl') ? ['musl'] : /gnu/.test(name) ? ['glibc'] : undefined
    lock.packages[`node_modules/${name}`] = {
      version: version.replace(/^[^\d]*/, ''),
      cpu,
      ...(parent.dev || place === 'node_modules/@biomejs/biome' ? { dev: true } : {}),
      ...(libc ? { libc } : {}),
      optional: true,
      os,
    }
    added.push(name)
  }
}
const [root, ...rest] = Object.entries(lock.packages)
lock.packages = Object.fromEntries([root, ...rest.sort(([a], [b]) => a.localeCompare(b, 'en'))])
writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`)
process.stdout.write(`${added.length} added\n${added.join('\n')}\n`)
