/** Returns whether text is an id as dms writes it: a UUID with hyphens, in lower case. */
export const isCanonicalId = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text)

/** Returns whether text has the form of an id in any case. */
export const isId = (text: string): boolean => isCanonicalId(text.toLowerCase())

/** The lowest UUID, which no row has. */
export const nilId = '00000000-0000-0000-0000-000000000000'
