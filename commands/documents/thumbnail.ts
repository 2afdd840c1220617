import { join } from 'node:path'
import type { Command } from 'commander'
import { parseCount } from '../../src/cli/arguments/flag-values.ts'
import { parseId } from '../../src/cli/arguments/ids.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { bodyChunks, expectedContent, rejectTerminal, resolveDownloadTarget, writeToStdout } from '../../src/cli/remote/download-target.ts'
import { saveFile } from '../../src/cli/remote/save-file.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'

interface Flags {
  width: string
  height: string
  to: string
  clobber?: boolean
}

export const documentsThumbnail = (cli: Cli): Command =>
  manual('thumbnail <id>', {
    summary: 'Download a WebP thumbnail of the first page',
    examples: [
      ['documents thumbnail 0192f0c1-…', 'to the current folder, as 0192f0c1-….webp'],
      ['documents thumbnail 0192f0c1-… --width 800 --height 800 --to page.webp', 'the largest size within 800 × 800'],
      ['documents thumbnail 0192f0c1-… --to - | img2sixel', 'to a pipe'],
    ],
    exits: '0 downloaded · 2 invalid size · 6 no such document, or no thumbnail · 7 file exists · 69 server unreachable',
  })
    .option('--width <pixels>', 'maximum width (up to 1000)', '200')
    .option('--height <pixels>', 'maximum height (up to 1000)', '200')
    .option('--to <place>', 'file, folder, or - for standard output', '.')
    .option('--clobber', 'replace an existing file')
    .action(async (given: string, { width, height, to, clobber = false }: Flags) => {
      const id = parseId(given, 'document')
      const size = { width: parseCount('--width', width, { max: 1000 }), height: parseCount('--height', height, { max: 1000 }) }
      if (to === '-') rejectTerminal(cli)
      const client = await cli.client()
      const response = await client.documents.thumbnail(id, size)
      if (to === '-') return void (await writeToStdout(cli, response))
      const place = await resolveDownloadTarget(to, 1)
      const path = 'file' in place ? place.file : join(place.folder, `${id}.webp`)
      const { bytes } = await saveFile(bodyChunks(response), path, expectedContent(response), clobber, () => {})
      cli.print({ id, path, bytes }, { columns: [{ name: 'id' }, { name: 'path' }, { name: 'bytes' }], sentence: `✓ ${path}` })
    })
