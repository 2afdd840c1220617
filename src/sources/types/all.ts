/** Every kind of source. A kind that the tables know and this version does not is refused when a source of it is made. */
import type { Row } from '../../db/schema.ts'
import type { SourceType } from '../../ports.ts'
import { folder } from './folder.ts'
import { webdav } from './webdav.ts'

export const types = { local_folder: folder, webdav } satisfies Partial<Record<Row<'sources'>['type'], SourceType>>
