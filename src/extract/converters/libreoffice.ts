/** Reader of types that LibreOffice converts to PDF. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, extname, join } from 'node:path'
import { type ByteSource, bytesSource, type OpenedDocument } from '../opened-document.ts'
import type { PdfTools } from '../readers/pdf/pdf.ts'
import { runProgram, withCopy } from './run-program.ts'

const maxOutputBytes = 1024 * 1024

/** No macros, and nothing from outside of the file. */
const settings = `<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema">
${['DisableMacrosExecution', 'DisableActiveContent', 'BlockUntrustedRefererLinks', 'DisableOLEAutomation']
  .map(
    (name) =>
      `<item oor:path="/org.openoffice.Office.Common/Security/Scripting"><prop oor:name="${name}" oor:op="fuse"><value>true</value></prop></item>`,
  )
  .join('\n')}
</oor:items>
`

/** Opens a file by its conversion to PDF. Returns null if LibreOffice has no filter for it. */
export async function openByLibreOffice(source: ByteSource, soffice: string, tools: PdfTools): Promise<OpenedDocument | null> {
  const bytes = await convertToPdf(source, soffice)
  if (!bytes) return null
  const { openPdf } = await import('../readers/pdf/pdf.ts')
  const { contents, picture, thumbnail, close } = openPdf(bytesSource(bytes, source.filename), tools)
  return {
    async contents() {
      const { metadata, pages } = await contents()
      // Other metadata is about the conversion.
      const { title, author, page_count } = metadata
      return { metadata: { ...(title !== undefined && { title }), ...(author !== undefined && { author }), page_count }, pages }
    },
    picture,
    thumbnail,
    close,
  }
}

async function convertToPdf(source: ByteSource, soffice: string): Promise<Uint8Array | null> {
  const profile = join(process.cwd(), 'libreoffice')
  if (!existsSync(profile)) {
    mkdirSync(join(profile, 'user'), { recursive: true })
    writeFileSync(join(profile, 'user', 'registrymodifications.xcu'), settings)
  }
  return withCopy(source, extname(source.filename).slice(1).replace(/\W/g, '') || 'bin', async (path) => {
    const output = `${path.slice(0, path.lastIndexOf('.'))}.pdf`
    const options = ['--headless', '--norestore', '--nolockcheck', '--nodefault', `-env:UserInstallation=file://${profile}`]
    await runProgram(soffice, [...options, '--convert-to', 'pdf', '--outdir', dirname(path), basename(path)], maxOutputBytes)
    if (!existsSync(output)) return null
    const bytes = readFileSync(output)
    rmSync(output)
    return bytes
  })
}
