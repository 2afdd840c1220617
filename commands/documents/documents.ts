import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { docs } from '../docs.ts'
import { documentsDelete } from './delete.ts'
import { documentsDownload } from './download.ts'
import { documentsExport } from './export.ts'
import { documentsGet } from './get.ts'
import { documentsList } from './list.ts'
import { documentsRetryOcr } from './retry-ocr.ts'
import { documentsText } from './text.ts'
import { documentsThumbnail } from './thumbnail.ts'
import { documentsUpdate } from './update.ts'
import { documentsUpload } from './upload.ts'
import { documentsWait } from './wait.ts'
import { documentsWatch } from './watch.ts'

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
