import type { Command } from 'commander'
import { parseId } from '../../src/cli/arguments/ids.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { Failure } from '../../src/cli/runtime/exit.ts'
import { isFinished } from '../../src/cli/runtime/wait.ts'
import { escapeControls } from '../../src/log/escape.ts'

export const documentsText = (cli: Cli): Command =>
  manual('text <id>', {
    summary: 'Print the extracted text of a document',
    examples: [
      ['documents text 0192f0c1-… | grep -i total', ''],
      ['documents text 0192f0c1-… > contract.txt', ''],
      ['documents text 0192f0c1-… -o json | jq -r .content', 'for a script'],
    ],
    exits: '0 printed · 3 OCR failed; partial text was printed · 6 no such document · 8 OCR has not finished',
  }).action(async (given: string) => {
    const client = await cli.client()
    if (cli.options.printCurl) return void (await client.documents.text(parseId(given, 'document')))
    const document = await client.documents.get(parseId(given, 'document'))
    const { id, status, error, content = '' } = document
    if (!isFinished(document))
      throw new Failure('PENDING', `document ${id} has no text yet: it is ${status}`, { fix: `dms documents wait ${id}` })
    const { isJson, isTerminal } = cli.options
    if (isJson) cli.print({ id, status, content }, { columns: [] })
    else cli.write(isTerminal ? escapeText(content) : content)
    if (status === 'failed')
      throw new Failure('PARTIAL', `OCR of document ${id} failed: ${error?.message}`, { details: { code: error?.code } })
  })

/** Escapes control characters except line breaks and tabs. */
const escapeText = (text: string): string =>
  `${text
    .split(/\r?\n|\f/)
    .map((line) => line.split('\t').map(escapeControls).join('\t'))
    .join('\n')}\n`
