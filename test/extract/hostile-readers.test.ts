/** Files that refer to other files, or that take over their reader: it requests nothing and reaches only the file that it was given. */
import { once } from 'node:events'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createListener, type Server } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { forkSandboxed, nodeKeepsFromNetwork, withoutNetwork } from '../../src/extract/process/sandbox.ts'
import { startApp, upload } from '../support/app.ts'
import { zip } from '../support/data/office-files.ts'
import { pdf } from '../support/data/pdf-file.ts'
import { folder } from '../support/places.ts'
import type { Outcomes } from '../support/processes/reader-taken-over.ts'

test('URLs in a file are not requested, and no other file of the server appears in its text', async () => {
  let hits = 0
  const listener = createServer((_, response) => {
    hits++
    response.end()
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void listener.close())
  await once(listener, 'listening')
  const to = `http://127.0.0.1:${(listener.address() as AddressInfo).port}/hit`
  const secret = join(await folder(), 'secret.txt')
  await writeFile(secret, 'treasure of the server')
  const own = pathToFileURL(secret).href
  const entities = `<!DOCTYPE x [<!ENTITY own SYSTEM "${own}"><!ENTITY there SYSTEM "${to}"><!ENTITY % all SYSTEM "${to}"> %all;]>`
  const word = `<?xml version="1.0"?>${entities}<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>words &own; &there;</w:t></w:r></w:p></w:body></w:document>`
  const links = `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/attachedTemplate" TargetMode="External" Target="${to}"/></Relationships>`
  /** Runs this script as soon as it is opened, if a reader allows it. */
  const acting = (action: string) => {
    const text = pdf({ pages: [{ text: ['words'] }], objects: { 900: action } }).toString('latin1')
    return Buffer.from(text.replace('/Type /Catalog', '/Type /Catalog /OpenAction 900 0 R'), 'latin1')
  }
  const files: Record<string, string | Buffer> = {
    'a.html': `<html><head><link rel="stylesheet" href="${to}"><script src="${to}"></script></head><body><img src="${to}"><iframe src="${own}"></iframe>words</body></html>`,
    'a.svg': `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="200" height="100"><image xlink:href="${to}" width="9" height="9"/><image href="${own}"/><rect width="100" height="50"/></svg>`,
    'entities.svg': `<?xml version="1.0"?>${entities}<svg xmlns="http://www.w3.org/2000/svg" width="200" height="100"><text y="20">words &own; &there;</text></svg>`,
    'a.xml': `<?xml version="1.0"?>${entities}<a>words &own; &there;</a>`,
    'a.docx': zip({
      '[Content_Types].xml': '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>',
      'word/document.xml': word,
      'word/_rels/document.xml.rels': links,
      'word/_rels/settings.xml.rels': links,
    }),
    'a.eml': `From: a@example.org\r\nSubject: words\r\nMIME-Version: 1.0\r\nContent-Type: text/html\r\n\r\n<img src="${to}">words`,
    'uri.pdf': acting(`<< /S /URI /URI (${to}) >>`),
    'launch.pdf': acting(`<< /S /Launch /F (${secret}) >>`),
    'elsewhere.pdf': acting(`<< /S /GoToR /F << /FS /URL /F (${to}) >> >>`),
    'drawing.jpg': `push graphic-context\nviewbox 0 0 9 9\nimage over 0,0 0,0 '${to}'\npop graphic-context`,
    'script.ps': `%!PS\n(${secret}) (r) file 99 string readstring`,
  }
  const { asAda, runJobs } = await startApp()
  const ids = await Promise.all(Object.entries(files).map(async ([name, bytes]) => [name, (await upload(asAda, name, bytes)).id] as const))
  await runJobs()
  for (const [name, id] of ids) {
    const { status, content } = await asAda.documents.get(id)
    expect.soft([name, ['completed', 'failed'].includes(status), content?.includes('treasure')]).toEqual([name, true, false])
    const picture = await asAda.send('GET', `/api/documents/${id}/thumbnail`)
    expect.soft([name, picture.status]).toEqual([name, 200])
    await picture.arrayBuffer()
  }
  expect(hits).toBe(0)
})

/** Starts a reader process with a compromised parser. Returns the results of its attempts, in its main thread and in another. */
async function takenOver(startsPrograms: boolean, isolation: readonly string[] | null): Promise<Outcomes[]> {
  const [home, place] = [await folder(), await folder()]
  const [given, socket, writable] = [join(home, 'given'), join(place, 'socket'), join(home, 'own')]
  await mkdir(writable)
  await writeFile(join(place, 'secret.txt'), 'treasure of the server')
  await writeFile(join(place, 'document'), 'as it was uploaded')
  await symlink(join(place, 'document'), given)
  const anywhere = await listening(createListener().listen(0))
  await listening(createListener().listen(socket))
  const program = fileURLToPath(new URL('../support/processes/reader-taken-over.ts', import.meta.url))
  const child = forkSandboxed({
    program,
    rights: { writable, readable: [home, program], startsPrograms },
    memoryBytes: 1e9,
    cpuSeconds: 600,
    isolation,
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let complaint = ''
  child.stderr?.on('data', (chunk) => {
    complaint += chunk
  })
  child.send({ port: (anywhere.address() as AddressInfo).port, socket, folder: place, given })
  const [outcomes] = await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(() => Promise.reject(new Error(`it ended: ${complaint}`))),
  ])
  expect(await readFile(join(place, 'document'), 'utf8')).toBe('as it was uploaded')
  return outcomes
}

async function listening(server: Server): Promise<Server> {
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  return server
}

const denied = 'ERR_ACCESS_DENIED'
const files = {
  read: denied,
  list: denied,
  'read by a link': denied,
  write: denied,
  'change what it was handed': denied,
  'read what it was handed': 'done',
  'write to its folder': 'done',
}

test.skipIf(!nodeKeepsFromNetwork)('a compromised reader reaches no network, no other file and no program, blocked by Node', async () => {
  const network = { connect: denied, 'connect to a file': denied, listen: denied, datagram: denied, fetch: denied }
  const all = { ...network, ...files, 'connect by a program': denied }
  expect(await takenOver(false, null)).toEqual([all, all])
})

const isolation = withoutNetwork()
test.skipIf(!isolation)('a program that it starts, and native code, have no network, blocked by the system', async () => {
  for (const outcomes of await takenOver(true, isolation))
    expect(outcomes).toMatchObject({
      ...files,
      'connect by a program': expect.stringMatching(/^(ENETUNREACH|ECONNREFUSED|EADDRNOTAVAIL)$/),
    })
})
