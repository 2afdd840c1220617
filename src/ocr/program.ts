import { execFile } from 'node:child_process'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** milliseconds */
const timeout = 10_000

export interface TesseractProgram {
  /** absolute path */
  readonly command: string
  /** where it may keep its models */
  readonly folders: readonly string[]
}

/** The tesseract program on the PATH, of version 4 or later (the first with LSTM networks); null where there is none that runs. */
export async function findTesseract(): Promise<TesseractProgram | null> {
  try {
    const command = (await run('sh', ['-c', 'command -v tesseract'], { timeout })).stdout.trim()
    const version = await run(command, ['--version'], { timeout })
    const major = /tesseract v?(\d+)/.exec(version.stdout + version.stderr)?.[1]
    if (Number(major ?? 0) < 4) return null
    // Without TESSDATA_PREFIX, which may be meant for somebody else.
    const list = await run(command, ['--list-langs'], { env: { LC_ALL: 'C' }, timeout })
    const told = /^List of .* in "(.+)"/m.exec(list.stdout + list.stderr)?.[1]
    return { command, folders: [...(told ? [told] : []), join(dirname(command), '../share/tessdata')] }
  } catch {
    return null
  }
}
