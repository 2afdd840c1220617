/** A server of a reader only, to be killed or stopped: reads the given file. Its settings are JSON in the first argument. */
import { argv } from 'node:process'
import { startProcess } from '../../../src/extract/process/reader-process.ts'
import { withoutNetwork } from '../../../src/extract/process/sandbox.ts'
import { openLog } from '../../../src/log/log.ts'
import { findOcr } from '../../../src/ocr/languages.ts'

export interface ReaderParentSettings {
  readonly path: string
  readonly tempDir: string
  /** `page`: by OCR with `command` as the tesseract program */
  readonly kind?: 'outline' | 'page'
  readonly command?: string
  readonly timeoutMs?: number
  readonly memory?: number
  /** seconds before the reader process runs its program */
  readonly startDelay?: number
}

const settings: ReaderParentSettings = JSON.parse(argv[2] ?? '{}')
const { path, tempDir, kind = 'outline', command, timeoutMs = 600_000, memory = 1e10, startDelay = 0 } = settings
const found = await findOcr({ engine: 'tesseract-js', dataPath: '' })
const ocr = command === undefined ? null : ({ ...found, engine: 'tesseract-native', command } as const)
const reader = startProcess({
  tempDir,
  log: openLog({ level: 'silent', format: 'json' }),
  ocr,
  converters: {},
  memoryBytes: memory,
  maxTimeoutMs: timeoutMs,
  limits: { maxPages: 10, maxPixels: 1e7, dpi: 100 },
  isolation: ['/bin/sh', '-c', `sleep ${startDelay}; exec "$@"`, 'delayed', ...(withoutNetwork() ?? [])],
})
const file = { path, filename: path, mimeType: 'application/octet-stream' }
const answer = reader.run(kind === 'outline' ? { kind, file } : { kind, file, page: 1, language: 'eng' }, timeoutMs)
process.stdout.write('sent\n')
await answer
