/** The readers of an installation. */
import { join } from 'node:path'
import type { Config } from '../../config/schema.ts'
import type { DocumentReader } from '../../ports/document-reader.ts'
import { findConverters } from '../converters/find-converters.ts'
import { openReader, type ReaderSettings } from './reader-pool.ts'

/** Opens a reader with the limits and converters of the configuration. Its processes have folders in `tmp/<name>` of the data folder. */
export function openConfiguredReader(
  { ocr, data_dir }: Config,
  name: string,
  settings: Pick<ReaderSettings, 'slots' | 'log' | 'ocr' | 'program'>,
): DocumentReader {
  return openReader({
    ...settings,
    tempDir: join(data_dir, 'tmp', name),
    converters: findConverters(ocr.converters),
    limits: {
      outlineTimeoutMs: ocr.timeout,
      pageTimeoutMs: ocr.page_timeout,
      thumbnailTimeoutMs: Math.min(ocr.page_timeout, 30_000),
      memoryBytes: ocr.memory_limit,
      maxPages: ocr.max_pages,
      maxPixels: ocr.max_pixels,
      dpi: ocr.dpi,
    },
  })
}
