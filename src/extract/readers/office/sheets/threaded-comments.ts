/** Threaded comments of Excel 365. The comments for older programs show a placeholder in their place, with an author `tc={id}`. */
import { walkXml } from '../../markup.ts'
import { decodeEscapes } from './cell-format.ts'

/** Prefix of a placeholder's author. */
export const placeholderAuthor = 'tc='

/** Reads the names of persons by their numbers. */
export function readPersons(xml: string): Map<string, string> {
  const persons = new Map<string, string>()
  walkXml(xml, {
    open(name, { id, displayName }) {
      if (name === 'person' && id && displayName) persons.set(id, displayName)
    },
  })
  return persons
}

/** Returns the threaded comments of a part, each below the name of its author; '' without any. */
export function readThreadedComments(xml: string, persons: ReadonlyMap<string, string>): string {
  const lines: string[] = []
  let text: string | null = null
  walkXml(xml, {
    open(name, { personId = '' }) {
      if (name === 'threadedComment' && persons.has(personId)) lines.push(persons.get(personId)!)
      if (name === 'text') text = ''
    },
    text(part) {
      if (text !== null) text += part
    },
    close(name) {
      if (name !== 'text' || text === null) return
      lines.push(decodeEscapes(text))
      text = null
    },
  })
  return lines.join('\n')
}
