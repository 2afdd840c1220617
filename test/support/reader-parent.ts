/** A server of nothing but a reader, to be killed: reads the file that it is given for ever. */
import { argv } from 'node:process'
import { openReader } from '../../src/extract/reader.ts'
import { openLog } from '../../src/log.ts'

const [, , path = '', tempDir = ''] = argv
const limits = {
  outlineTimeout: 600_000,
  pageTimeout: 600_000,
  thumbnailTimeout: 600_000,
  memory: 1e10,
  maxPages: 10,
  maxPixels: 1e7,
  dpi: 100,
}
const reader = openReader({ slots: 1, tempDir, log: openLog({ level: 'silent', format: 'json' }), ocr: null, limits })
await reader.outline({ path, filename: 'endless.pdf', mimeType: 'application/pdf' })
