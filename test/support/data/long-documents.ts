/** Documents with a text of any length, stored as if it had been read. */
import type { App } from '../../../src/app.ts'
import type { Client } from '../../../src/client/client.ts'
import { upload } from '../app.ts'

/** Uploads a small file and sets the text of its document. Returns the id. */
export async function documentWith(app: App, client: Client, content: string, title = 'long'): Promise<string> {
  const { id } = await upload(client, `${title}.txt`, title, { title })
  await app.db.updateTable('documents').set({ content, status: 'completed', processed_at: app.now() }).where('id', '=', id).execute()
  return id
}

/** Characters of one to four bytes, quotes, control characters and a byte order mark, so that chunks end inside of them. */
export function longText(characters: number): string {
  const signs = [...'aä€😀"\\\n\u0001\ufeff']
  return Array.from({ length: characters }, (_, at) => signs[at % signs.length]).join('')
}
