import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group } from '../src/cli/manual.ts'
import { documentsDelete } from './documents-delete.ts'
import { documentsDownload } from './documents-download.ts'
import { documentsGet } from './documents-get.ts'
import { documentsList } from './documents-list.ts'
import { documentsText } from './documents-text.ts'
import { documentsUpload } from './documents-upload.ts'
import { documentsWait } from './documents-wait.ts'

/** `dms documents`: what is done with documents. */
export const documents = (cli: Cli): Command =>
  group('documents', 'Upload, list, show, download and delete documents.', [
    documentsUpload(cli),
    documentsList(cli),
    documentsGet(cli),
    documentsText(cli),
    documentsDownload(cli),
    documentsDelete(cli),
    documentsWait(cli),
  ]).alias('docs')
