/** Parses XML responses of S3 servers: listings and errors. */
import { Parser } from 'htmlparser2'
import { SourceFailure } from '../../ports/source-type.ts'

/** A listing of 1,000 percent-encoded keys of 1,024 bytes has 4 MB. */
const maxBodyBytes = 16 << 20
/** Characters per element. */
const maxTextLength = 64 << 10
const maxDepth = 16

/**
 * Reads a body to its end and calls `onElement` at the end of each element, with its path from the root (joined with `/`) and its text. Throws
 * SourceFailure SOURCE_PROTOCOL unless the body is one well-formed element `root`.
 */
export async function readXml(
  body: AsyncIterable<Uint8Array>,
  root: string,
  onElement: (path: string, text: string) => void,
): Promise<void> {
  const openElements: { path: string; text: string; hasInner: boolean }[] = []
  let isComplete = false
  const parser = new Parser(
    {
      onprocessinginstruction(name) {
        if (name.startsWith('!') && openElements.length > 0)
          throw protocolFailure('The answer holds a DOCTYPE or an entity, which lists do not have.')
        if (name.startsWith('!')) throw notS3()
      },
      onopentag(name) {
        const local = name.slice(name.indexOf(':') + 1)
        const outer = openElements.at(-1)
        if (isComplete || (!outer && local !== root)) throw notS3()
        if (openElements.length === maxDepth) throw protocolFailure('The answer is nested too deeply.')
        if (outer) outer.hasInner = true
        openElements.push({ path: outer ? `${outer.path}/${local}` : local, text: '', hasInner: false })
      },
      ontext(text) {
        const current = openElements.at(-1)
        if (!current) {
          if (/[^\s\ufeff]/.test(text)) throw notS3()
          return
        }
        current.text += text
        if (current.text.length > maxTextLength)
          throw protocolFailure(`The answer holds a text of more than ${maxTextLength >> 10} Ki characters.`)
      },
      onclosetag(_, isImplied) {
        const current = openElements.pop()
        if (!current) return
        // The parser reports <Empty/> as implied too.
        if (isImplied && (openElements.length === 0 || current.hasInner || current.text !== ''))
          throw protocolFailure('The answer ends in the middle.')
        if (openElements.length === 0) isComplete = true
        onElement(current.path, current.text)
      },
    },
    { xmlMode: true, decodeEntities: true },
  )
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let total = 0
  for await (const bytes of body) {
    total += bytes.length
    if (total > maxBodyBytes) throw protocolFailure(`The answer is larger than ${maxBodyBytes >> 20} MiB.`)
    parser.write(decodeText(decoder, bytes))
  }
  parser.write(decodeText(decoder))
  if (!isComplete) throw openElements.length > 0 ? protocolFailure('The answer ends in the middle.') : notS3()
}

function decodeText(decoder: TextDecoder, bytes?: Uint8Array): string {
  try {
    return decoder.decode(bytes, { stream: bytes !== undefined })
  } catch {
    throw protocolFailure('The answer is not UTF-8.')
  }
}

const protocolFailure = (message: string) => new SourceFailure('SOURCE_PROTOCOL', message)
const notS3 = () => protocolFailure('The answer is not one of S3.')
