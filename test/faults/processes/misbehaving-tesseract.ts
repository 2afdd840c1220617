/** F33: the OCR program crashes, hangs, prints nonsense, nothing, or endlessly. */
import { setTimeout as sleep } from 'node:timers/promises'
import { processTree } from '../../support/processes/process-tree.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'
import { type Behaviour, behaviours, fakeTesseract, picture } from './tesseract.ts'

const bad = (Object.keys(behaviours) as Behaviour[]).filter((name) => !['good', 'slow', 'takes a moment'].includes(name))

export const misbehavingTesseract: Fault = { id: 'F33', name: 'tesseract crashes, hangs, prints nonsense, nothing or without end', run }

async function run({ installation }: FaultContext): Promise<FaultResult> {
  const tesseract = await fakeTesseract(installation.folder)
  const server = await installation.start({ env: { ...tesseract.env, DMS_OCR_PAGE_TIMEOUT: '10s', DMS_OCR_MAX_ATTEMPTS: '1' } })
  const faultRun = await openFaultRun(installation)
  const { caller, expect, notes } = faultRun
  const endOf = async (id: string | null) => {
    for (const end = performance.now() + 120_000; performance.now() < end; await sleep(100)) {
      const [row] = await installation.query<{ status: string; error_code: string | null }>(
        `select status, error_code from documents where id = '${id}'`,
      )
      if (row && ['completed', 'failed'].includes(row.status)) return row
    }
    return { status: 'no end', error_code: null }
  }
  for (const behaviour of bad) {
    await tesseract.behave(behaviour)
    const [scan, text] = await Promise.all([caller.upload(await picture(), 'scan.png'), caller.uploadText()])
    const { status, error_code } = await endOf(scan.id)
    expect(status === 'failed' && error_code !== null, `${behaviour}: the document is ${status} ${error_code}`)
    expect((await endOf(text.id)).status === 'completed', `${behaviour}: the other document was not read`)
    notes.push(`${behaviour}: ${error_code}`)
    const remaining = () =>
      processTree(server.pid).filter(({ command }) => /tesseract|sleep 12345|^yes/.test(command) && !/node/.test(command))
    for (const end = performance.now() + 30_000; remaining().length > 0 && performance.now() < end; ) await sleep(100)
    expect(remaining().length === 0, `${behaviour}: ${remaining().length} processes remain: ${remaining()[0]?.command}`)
  }
  await tesseract.behave('good')
  const { id } = await caller.upload(await picture(), 'scan.png')
  expect((await endOf(id)).status === 'completed', 'a good tesseract after it is not used')
  expect(server.isRunning(), 'the server ended')
  const result = await faultRun.finish(`${bad.length} ways`)
  await server.kill()
  return result
}
