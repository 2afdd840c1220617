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

export const documents = (cli: Cli, loadAll: () => Promise<Command>): Command => {
  const command = group('documents', 'Manage documents', [
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
  for (const each of docs(cli, loadAll)) command.addCommand(each, { hidden: true })
  return command
}
