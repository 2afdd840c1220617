/** Static files of the page, named by the hash of their content. Browsers keep them for a year. */
import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { AppError } from '../errors.ts'
import { matchesEtag } from '../http/files.ts'
import { palette } from '../http/html.ts'

/** The build copies the files into its own folder. */
const read = (name: string): string => readFileSync(new URL(`./${name}`, import.meta.url), 'utf8')

const files = {
  style: { extension: 'css', type: 'text/css; charset=utf-8', text: () => palette + read('page.css') },
  script: { extension: 'js', type: 'text/javascript; charset=utf-8', text: () => read('page-script.js') },
  icon: { extension: 'svg', type: 'image/svg+xml', text: () => read('page-icon.svg') },
} as const

export interface Assets {
  /** Paths of the files. */
  readonly paths: Readonly<Record<keyof typeof files, string>>
  /** Returns the file of a name in a path. Throws NOT_FOUND. */
  answer(name: string, headers: Headers): Response
}

/** Loads the files. */
export function loadAssets(): Assets {
  const loaded = Object.entries(files).map(([key, { extension, type, text }]) => {
    const body = text()
    const digest = hash('sha256', body, 'base64url').slice(0, 16)
    return { key, name: `page-${digest}.${extension}`, type, body, etag: `"${digest}"` }
  })
  return {
    paths: Object.fromEntries(loaded.map(({ key, name }) => [key, `/assets/${name}`])) as Record<keyof typeof files, string>,
    answer(name, headers) {
      const file = loaded.find((one) => one.name === name)
      if (!file) throw new AppError('NOT_FOUND')
      const common = {
        etag: file.etag,
        'cache-control': 'public, max-age=31536000, immutable',
        'content-type': file.type,
        'x-content-type-options': 'nosniff',
      }
      if (matchesEtag(headers.get('if-none-match'), file.etag)) return new Response(null, { status: 304, headers: common })
      return new Response(file.body, { headers: common })
    },
  }
}
