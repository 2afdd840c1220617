import { monitorEventLoopDelay } from 'node:perf_hooks'
import fc from 'fast-check'
import picomatch from 'picomatch'
import { expect, test } from 'vitest'
import { compileGlobs, maxLength } from '../../src/sources/globs.ts'
import { startApp } from '../support/app.ts'
import { slowness, waitedMs } from '../support/processes/run-queue.ts'
import { startLying } from '../support/servers/lying-server.ts'
import { startServer } from '../support/servers/server.ts'

test.each([
  [['*.pdf'], ['a.pdf', 'x/A.PDF'], ['a.pdf.txt', 'pdf', 'a.pdf/b']],
  [['in/*.pdf'], ['in/a.pdf', 'IN/.pdf'], ['in/x/a.pdf', 'a.pdf', 'xin/a.pdf']],
  [['in/**'], ['in/a', 'in/x/y'], ['in', 'out/in/a']],
  [['**/in/*'], ['in/a', 'x/y/in/a'], ['xin/a', 'in/a/b']],
  [['in/**/b.txt'], ['in/b.txt', 'in/x/y/b.txt'], ['in/xb.txt', 'b.txt']],
  [['a?c'], ['abc', 'x/aéc'], ['ac', 'abbc']],
  [['[a-c]*.{txt,md}'], ['a.txt', 'Cx.md'], ['d.txt', 'a.pdf']],
  [['[!a]b'], ['xb'], ['ab']],
  [['\\*.txt'], ['*.txt'], ['a.txt']],
  [['!*.tmp'], ['a.txt'], ['a.tmp', 'x/b.TMP']],
  [
    ['*.txt', '!x/**'],
    ['a.txt', 'y/a.txt'],
    ['x/a.txt', 'a.pdf'],
  ],
  [['./in/*'], ['in/a'], ['a']],
  [['Rechnung*Ä.pdf'], ['rechnung 1 a\u0308.pdf'], ['rechnung.pdf']],
  [[], ['anything', 'at/all'], []],
])('%j', (patterns, yes, no) => {
  const globs = compileGlobs(patterns)
  expect([yes.filter((path) => !globs.matches(path)), no.filter((path) => globs.matches(path))]).toEqual([[], []])
})

const name = fc.stringMatching(/^[ab1é][ab1.é]{0,3}$/)
const ordinaryPath = fc.array(name, { minLength: 1, maxLength: 4 }).map((names) => names.join('/'))
/** Globs as users write them: stars, question marks, sets and alternatives in names, and whole folders. */
const part = fc
  .array(fc.constantFrom('a', 'b', '1', '.', 'é', '?', '*', '[a1]', '[!a]', '[a-b]', '{a,b}', '{a,1*}'), { minLength: 1, maxLength: 4 })
  .map((parts) => parts.join('').replaceAll(/\*+(\}?)\*+/g, '*$1'))
const ordinaryGlob = fc
  .array(fc.oneof({ weight: 3, arbitrary: part }, { weight: 1, arbitrary: fc.constant('**') }), { minLength: 1, maxLength: 4 })
  .map((parts) => parts.join('/').replace(/(\*\*\/)+\*\*/g, '**'))

test('ordinary globs match the paths that picomatch matches', () => {
  const paths = fc.sample(ordinaryPath, { numRuns: 500, seed: 2 })
  let matched = 0
  for (const glob of fc.sample(ordinaryGlob, { numRuns: 500, seed: 1 })) {
    const ours = compileGlobs([glob])
    // There a folder is what is in it as well, and a set is negated as in expressions.
    const same = glob.replace(/(^|\/)\*\*$/, '$1**/*').replaceAll('[!', '[^')
    const theirs = picomatch(glob.includes('/') ? same : `**/${same}`, { nocase: true, dot: true })
    const other = paths.filter((path) => ours.matches(path) !== theirs(path))
    expect({ glob, other }).toEqual({ glob, other: [] })
    matched += paths.filter((path) => theirs(path)).length
  }
  expect(matched).toBeGreaterThan(5000)
})

const twenty = (pattern: string) => Array.from({ length: 20 }, () => pattern)

/** 100,000 paths of about 70 characters. */
const manyPaths = () => {
  const some = fc.sample(fc.stringMatching(/^[ab/]{64}$/), { numRuns: 100, seed: 3 })
  return Array.from({ length: 100_000 }, (_, at) => `${some[at % 100]}${at}`)
}

test.each([
  ['stars', twenty('*a'.repeat(127))],
  ['folders', twenty(`${'**/a/'.repeat(50)}b`)],
  ['stars over folders', twenty('**a'.repeat(85))],
  ['sets', twenty('*[a-z]'.repeat(42))],
  ['a wide set', twenty(`*[${'a-bc'.repeat(62)}]`)],
  ['choices', twenty(`${'{*a,*b}'.repeat(4)}${'?'.repeat(8)}`)],
])('20 globs of %s cost at most 160 steps for each character of 100,000 paths', (_, patterns) => {
  const globs = compileGlobs(patterns)
  const paths = manyPaths()
  const characters = paths.reduce((sum, path) => sum + path.length, 0)
  for (const path of paths) globs.matches(path)
  expect(globs.steps).toBeLessThan(characters * 160 + maxLength * 50)
})

test('400 at file_patterns if all globs together have too many alternatives', async () => {
  const { asAda } = await startApp()
  const fields = { name: 'Cloud', type: 'webdav', url: 'https://cloud.example.org/dav/' } as const
  // Each of them stands for 32 others, as long.
  const worst = `${'{a*,b*}'.repeat(5)}${'*a'.repeat(90)}`
  const refused = await asAda.sources.create({ ...fields, file_patterns: twenty(worst) }).catch((error) => error)
  expect(refused).toMatchObject({ status: 400, code: 'VALIDATION_ERROR', details: { issues: [{ path: 'file_patterns' }] } })
  const { id } = await asAda.sources.create({ ...fields, file_patterns: ['**/*.{pdf,PDF,tif,tiff,png,jpg,jpeg,docx,odt,txt}'] })
  await expect(asAda.sources.update(id, { file_patterns: twenty(worst) })).rejects.toMatchObject({ status: 400 })
})

test('20 globs of stars do not block the event loop while 400 long names are matched', async () => {
  const { asAda, runJobs, fetch } = await startServer({ 'ocr.enabled': false })
  const names = ['', ...Array.from({ length: 400 }, (_, at) => `${'a'.repeat(200)}${at}.b`)]
  const share = await startLying('/', (_, response) => void response.writeHead(207).end(listOf(names)))
  const { id } = await asAda.sources.create({ name: 'Share', type: 'webdav', url: share.url, file_patterns: twenty('*a'.repeat(127)) })
  await asAda.sources.sync(id)
  const delay = monitorEventLoopDelay({ resolution: 1 })
  const waited = waitedMs()
  delay.enable()
  await runJobs(['sync'])
  delay.disable()
  expect(await asAda.sources.syncStatus(id)).toMatchObject({ state: 'completed', created: 0 })
  expect((await fetch('/healthz')).status).toBe(200)
  // This process is the server as well.
  expect(delay.max / 1e6 - (waitedMs() - waited)).toBeLessThan(1000 * slowness())
})

const listOf = (names: readonly string[]) =>
  `<D:multistatus xmlns:D="DAV:">${names
    .map(
      (name) =>
        `<D:response><D:href>/${name}</D:href><D:propstat><D:prop><D:resourcetype>${name ? '' : '<D:collection/>'}</D:resourcetype>` +
        '<D:getcontentlength>5</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>',
    )
    .join('')}</D:multistatus>`
