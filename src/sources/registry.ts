/** Source types, loaded when used. */
import type { Row } from '../db/schema.ts'
import type { SourceType } from '../ports/source-type.ts'

export const sourceTypes = {
  local_folder: async () => (await import('./folder/folder.ts')).folder,
  s3: async () => (await import('./s3/s3.ts')).s3,
  webdav: async () => (await import('./webdav/webdav.ts')).webdav,
} satisfies Record<Row<'sources'>['type'], () => Promise<SourceType>>
