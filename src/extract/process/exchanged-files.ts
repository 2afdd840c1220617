/** Files that the server and a reader process exchange: words of pages for a PDF/A, and the output of a work. */
import { constants, createReadStream } from 'node:fs'
import { open, writeFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { type PageText, ReadFailure } from '../../ports/document-reader.ts'

/** Writes the words of pages as JSON lines. */
export async function writeTexts(path: string, texts: AsyncIterable<PageText>): Promise<void> {
  async function* lines() {
    for await (const text of texts) yield `${JSON.stringify(text)}\n`
  }
  await writeFile(path, lines(), { flag: 'wx' })
}

/** Reads the words of pages by their numbers. */
export async function readTexts(path: string): Promise<Map<number, PageText>> {
  const texts = new Map<number, PageText>()
  for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY })) {
    const text = JSON.parse(line) as PageText
    texts.set(text.page, text)
  }
  return texts
}

/** Opens the output of a work. Refuses links and devices: a file may have taken over the process that wrote it. */
export async function openOutput(path: string): Promise<AsyncIterable<Uint8Array>> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  if ((await file.stat()).isFile()) return file.createReadStream()
  await file.close()
  throw new ReadFailure('READ_CRASHED')
}
