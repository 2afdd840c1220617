/** Search for the tesseract program. */
import { execFile } from 'node:child_process'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { findProgram } from '../config/find-program.ts'

const run = promisify(execFile)
/** The call takes 0.02 s of processor time. The limit is long because the program must be found on a busy machine too. */
const timeoutMs = 60_000

interface TesseractProgram {
  /** absolute path */
  readonly command: string
  /** folders that may contain its models */
  readonly folders: readonly string[]
}

/** Finds the tesseract program on the PATH. null: missing, broken, or older than version 4, the first one with LSTM networks. */
export async function findTesseract(): Promise<TesseractProgram | null> {
  try {
    const command = findProgram('tesseract')
    if (command === null) return null
    // Without TESSDATA_PREFIX, which may be set for another program.
    const { stdout, stderr } = await run(command, ['--list-langs'], { env: { LC_ALL: 'C' }, timeout: timeoutMs })
    const folder = /^List of .* in "(.+)"/m.exec(stdout + stderr)?.[1]
    // Version 5 prints the folder. A second process asks older ones for their version.
    if (folder === undefined && (await readMajorVersion(command)) < 4) return null
    return { command, folders: [...(folder ? [folder] : []), join(dirname(command), '../share/tessdata')] }
  } catch {
    return null
  }
}

async function readMajorVersion(command: string): Promise<number> {
  const { stdout, stderr } = await run(command, ['--version'], { timeout: timeoutMs })
  return Number(/tesseract v?(\d+)/.exec(stdout + stderr)?.[1] ?? 0)
}
