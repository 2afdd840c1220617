/** XML as S3 servers send it: lists of at most a thousand objects, and errors. */
import { Parser } from 'htmlparser2'
import { SourceFailure } from '../../ports/source-type.ts'

/** Bytes of an answer. A list of 1,000 names of 1,024 bytes, all of them encoded, has 4 MB. */
const maxAnswer = 16 << 20
/** Characters in one element. */
const maxText = 64 << 10
const maxDepth = 16

/**
 * Reads a body to its end, and tells of each element when it ends: its path from the root, joined with `/`, and its own text. Throws SourceFailure
 * SOURCE_PROTOCOL unless it is all of one well-formed element called `root`.
 */
export async function readXml(body: AsyncIterable<Uint8Array>, root: string, told: (path: string, text: string) => void): Promise<void> {
  const open: { path: string; text: string; hasInner: boolean }[] = []
  let isComplete = false
  const parser = new Parser(
    {
      onprocessinginstruction(name) {
        if (name.startsWith('!') && open.length > 0) throw wrong('The answer holds a DOCTYPE or an entity, which lists do not have.')
        if (name.startsWith('!')) throw notOfS3()
      },
      onopentag(name) {
        const local = name.slice(name.indexOf(':') + 1)
        const outer = open.at(-1)
        if (isComplete || (!outer && local !== root)) throw notOfS3()
        if (open.length === maxDepth) throw wrong('The answer is nested too deeply.')
        if (outer) outer.hasInner = true
        open.push({ path: outer ? `${outer.path}/${local}` : local, text: '', hasInner: false })
      },
      ontext(text) {
        const current = open.at(-1)
        if (!current) {
          if (/[^\s\ufeff]/.test(text)) throw notOfS3()
          return
        }
        current.text += text
        if (current.text.length > maxText) throw wrong(`The answer holds a text of more than ${maxText >> 10} Ki characters.`)
      },
      onclosetag(_, isImplied) {
        const current = open.pop()
        if (!current) return
        // <Empty/> counts as implied too, but has nothing in it.
        if (isImplied && (open.length === 0 || current.hasInner || current.text !== '')) throw wrong('The answer ends in the middle.')
        if (open.length === 0) isComplete = true
        told(current.path, current.text)
      },
    },
    { xmlMode: true, decodeEntities: true },
  )
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let total = 0
  for await (const bytes of body) {
    total += bytes.length
    if (total > maxAnswer) throw wrong(`The answer is larger than ${maxAnswer >> 20} MiB.`)
    parser.write(decoded(decoder, bytes))
  }
  parser.write(decoded(decoder))
  if (!isComplete) throw open.length > 0 ? wrong('The answer ends in the middle.') : notOfS3()
}

function decoded(decoder: TextDecoder, bytes?: Uint8Array): string {
  try {
    return decoder.decode(bytes, { stream: bytes !== undefined })
  } catch {
    throw wrong('The answer is not UTF-8.')
  }
}

const wrong = (message: string) => new SourceFailure('SOURCE_PROTOCOL', message)
const notOfS3 = () => wrong('The answer is not one of S3.')
