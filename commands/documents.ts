import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group } from '../src/cli/manual.ts'
import { docs } from './docs.ts'
import { documentsDelete } from './documents-delete.ts'
import { documentsDownload } from './documents-download.ts'
import { documentsExport } from './documents-export.ts'
import { documentsGet } from './documents-get.ts'
import { documentsList } from './documents-list.ts'
import { documentsRetryOcr } from './documents-retry-ocr.ts'
import { documentsText } from './documents-text.ts'
import { documentsThumbnail } from './documents-thumbnail.ts'
import { documentsUpdate } from './documents-update.ts'
import { documentsUpload } from './documents-upload.ts'
import { documentsWait } from './documents-wait.ts'
import { documentsWatch } from './documents-watch.ts'

/** `dms documents`: what is done with documents. */
export const documents = (cli: Cli, whole: () => Promise<Command>): Command => {
  const command = group('documents', 'Documents: upload, find, change, fetch and delete them.', [
    documentsUpload(cli),
    documentsWatch(cli),
    documentsList(cli),
    documentsGet(cli),
    documentsText(cli),
    documentsDownload(cli),
    documentsThumbnail(cli),
    documentsUpdate(cli),
    documentsDelete(cli),
    documentsExport(cli),
    documentsRetryOcr(cli),
    documentsWait(cli),
  ]).alias('docs')
  for (const page of docs(cli, whole)) command.addCommand(page, { hidden: true })
  return command
}
