/** Runs programs in a reader process. */
import { execFile } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { ReadFailure } from '../../ports/document-reader.ts'
import type { ByteSource } from '../opened-document.ts'

/** Runs a program and returns its standard output. Throws ReadFailure FILE_CORRUPT if it fails, FILE_TOO_COMPLEX if it prints more than `maxBytes`. */
export function runProgram(program: string, args: readonly string[], maxBytes: number): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  execFile(program, args, { encoding: 'buffer', maxBuffer: maxBytes }, (problem, stdout, stderr) => {
    if (!problem) return resolve(stdout)
    if (problem.code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return reject(new ReadFailure('FILE_TOO_COMPLEX'))
    const reason = stderr.toString().trim().split('\n').at(-1) || problem.message
    return reject(new ReadFailure('FILE_CORRUPT', `The file cannot be read: ${reason}`))
  })
  return promise
}

let count = 0

/** Calls `use` with the path of a copy of a file in the folder of the process, which has a harmless name. */
export async function withCopy<T>(source: ByteSource, extension: string, use: (path: string) => Promise<T>): Promise<T> {
  const path = `${process.cwd()}/convert-${count++}.${extension}`
  writeFileSync(path, source.read())
  try {
    return await use(path)
  } finally {
    rmSync(path, { force: true })
  }
}
