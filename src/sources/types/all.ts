/** Every kind of source. */
import type { Row } from '../../db/schema.ts'
import type { SourceType } from '../../ports/sources.ts'
import { folder } from './folder.ts'
import { s3 } from './s3.ts'
import { webdav } from './webdav.ts'

export const types = { local_folder: folder, s3, webdav } satisfies Record<Row<'sources'>['type'], SourceType>
